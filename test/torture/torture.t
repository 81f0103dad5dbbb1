#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Two minutes of `make torture`; its README says what is done and compared. Its plan is 1..N, from torture.py.
# timeout: 900
exec python3 test/torture/torture.py --sample
