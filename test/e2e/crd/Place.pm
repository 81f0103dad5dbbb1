# SPDX-License-Identifier: Apache-2.0
#
# Place: values put into an example object at a path, for those who make a bad one of a good one.
package Place;
use strict;
use warnings;
use Exporter qw(import);

our @EXPORT = qw(place make_room);

# steps("a.b[0].c") is (a, b, 0, c).
sub steps { return grep { length } split /[.\[\]]+/, shift }

# place(OBJECT, PATH, VALUE): without VALUE, removes what is there. Makes what is missing on the way.
sub place {
    my ($object, $path, @value) = @_;
    my @steps = steps($path);
    my $last  = pop @steps;
    my $at    = $object;
    for my $step (@steps) {
        $at = ref $at eq 'ARRAY' ? $at->[$step] : ($at->{$step} //= {});
    }
    if    (ref $at eq 'ARRAY') { $at->[$last] = $value[0] }
    elsif (@value)             { $at->{$last} = $value[0] }
    else                       { delete $at->{$last} }
    return;
}

# make_room(OBJECT, PATH): no object can hold all probes, or both actions, at once, so one that PATH is about takes the place of another.
sub make_room {
    my ($object, $path) = @_;
    $object->{spec}{onChange} = { app => { name => 'a', signal => 'HUP' } } if $path =~ /^spec\.onChange\.app\b/;
    my ($use, $probe) = $path =~ /^spec\.(\w+Probe)\.(exec|tcpSocket)\b/ or return;
    delete $object->{spec}{$use}{httpGet};
    $object->{spec}{$use}{$probe} = $probe eq 'exec' ? { command => ['true'] } : { port => 80 };
    return;
}

1;
