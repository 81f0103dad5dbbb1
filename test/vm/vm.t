#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A whole machine loses its power three times, and comes back as it was, without a network, and at 1970. `make vm-torture` does more of it.
# timeout: 1800
if ((EUID != 0)) || [[ $(uname -m) != x86_64 || -z $(type -P apt-get) ]]; then
	echo '1..0 # SKIP the machine is made from Debian packages for amd64, by root'
	exit 0
fi
exec python3 "$(dirname "$0")/powercut.py" --cuts 3 # which prints the plan: 1..N
