#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# check.pl TOP URL: the checks of crd.t. TOP is the source tree, URL a kubectl proxy, $KUBECTL the command of an administrator.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Test::More;
use Api;

my ($top, $url) = @ARGV;
my $api = Api->new($url);

for my $part (qw(install verdicts explain rights)) {
    my $check = do "$FindBin::Bin/$part.pl" or die "$part.pl: ", $@ || $!;
    note $part;
    $check->($api, $top);
}
done_testing();
