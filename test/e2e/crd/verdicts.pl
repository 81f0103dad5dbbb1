# SPDX-License-Identifier: Apache-2.0
#
# What the server accepts and refuses. cases.pl has a whole valid object of each kind, and for every constraint of the
# schemas a value that breaks it; a constraint without one is itself a failure. The wrong JSON types need no table.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use Place;
use Storable qw(dclone);
use Test::More;

my $namespace = 'verdicts';

# What the server says of each keyword of a schema.
my %says = (
    minLength => qr/at least \d+ chars long/,
    maxLength => qr/Too long/,
    pattern   => qr/should match/,
    anyOf     => qr/should match/,
    enum      => qr/Unsupported value/,
    minimum   => qr/greater than or equal to/,
    maximum   => qr/less than or equal to/,
    minItems  => qr/at least \d+ items/,
    maxItems  => qr/Too many/,
    required  => qr/Required value/,
    unique    => qr/Duplicate value/,
    format    => qr/must be of type date-time/,
    type      => qr/must be of type/,
);

# submit(API, KIND, OBJECT, PATH): a dry run of what PATH lies in: the spec is created, the status patched.
sub submit {
    my ($api, $kind, $object, $path) = @_;
    if ($path =~ /^status/) {
        my $at = $api->path($kind, $namespace, $object->{metadata}{name}) . '/status?dryRun=All';
        return $api->merge($at, { status => $object->{status} });
    }
    $object->{metadata}{name} = 'other';
    return $api->post($api->path($kind, $namespace) . '?dryRun=All', $object);
}

# A refusal has to be for the reason that was meant: the field and the words, not just any 422.
sub refused {
    my ($code, $answer, $field, $words, $name) = @_;
    my @causes = @{ $answer->{details}{causes} || [] };
    my $found  = grep { $_->{field} eq $field && $_->{message} =~ $words } @causes;
    ok $code == 422 && $found, $name or diag "wanted 422, $field, $words; got $code ", explain \@causes;
}

# constraints(SCHEMA): every "path keyword" there is, below spec and status.
sub constraints {
    my ($root) = @_;
    my %found;
    my @todo = map { [ $root->{properties}{$_}, $_ ] } grep { $root->{properties}{$_} } qw(spec status);
    $found{" required $_"} = 1 for @{ $root->{required} || [] };
    while (my $next = shift @todo) {
        my ($node, $at) = @$next;
        $found{"$at $_"} = 1 for grep { defined $node->{$_} } qw(minLength maxLength pattern enum minimum maximum minItems maxItems);
        $found{"$at anyOf"} = 1 if $node->{anyOf} && !$node->{'x-kubernetes-int-or-string'};
        $found{"$at required $_"} = 1 for @{ $node->{required} || [] };
        $found{"$at format"} = 1 if ($node->{format} || '') eq 'date-time';
        $found{"$at unique"} = 1 if ($node->{'x-kubernetes-list-type'} || '') eq 'map';
        $found{ "$at rule" . ($_->{fieldPath} || '') } = $_->{message} for @{ $node->{'x-kubernetes-validations'} || [] };
        push @todo, [ $node->{items}, $at . '[]' ] if $node->{items};
        push @todo, map { [ $node->{properties}{$_}, "$at.$_" ] } keys %{ $node->{properties} || {} };
    }
    return \%found;
}

sub check_case {
    my ($api, $kind, $base, $known, $case) = @_;
    my ($path, $keyword, $value, $field) = @$case;
    my $object = dclone($base);
    make_room($object, $path);
    (my $label = "$path $keyword") =~ s/\[\d+\]/[]/g;
    if ($keyword eq 'required') {
        $label .= " $value";
        $field = $path eq '' ? $value : "$path.$value";
        place($object, $field);
    } else {
        place($object, $path, $value);
    }
    $label .= substr $field, length $path if $keyword eq 'rule' && $field; # several rules, told apart by the field they name
    my $words = $keyword eq 'rule' ? qr/\Q@{[ $known->{$label} || 'no such rule' ]}\E/ : $says{$keyword};
    refused(submit($api, $kind, $object, $path), $field || $path, $words, "$kind: $label");
    return $label;
}

# wrong_types(SCHEMA): [path, a value of a wrong type] of everything; of an array, its first item.
sub wrong_types {
    my ($root) = @_;
    my %wrong = (string => 42, integer => 'many', boolean => 'yes', array => {}, object => [], number => 'x');
    my @todo = map { [ $root->{properties}{$_}, $_ ] } grep { $root->{properties}{$_} } qw(spec status);
    my @found;
    while (my $next = shift @todo) {
        my ($node, $at) = @$next;
        push @found, [ $at, $node->{'x-kubernetes-int-or-string'} ? {} : $wrong{ $node->{type} } ];
        push @todo, [ $node->{items}, $at . '[0]' ] if $node->{items};
        push @todo, map { [ $node->{properties}{$_}, "$at.$_" ] } sort keys %{ $node->{properties} || {} };
    }
    return @found;
}

sub check_types {
    my ($api, $kind, $base, $schema) = @_;
    for (wrong_types($schema)) {
        my ($path, $wrong) = @$_;
        my $object = dclone($base);
        make_room($object, $path);
        place($object, $path, $wrong);
        refused(submit($api, $kind, $object, $path), $path, $says{type}, "$kind: $path type");
    }
}

sub check_accepted {
    my ($api, $kind, $base, $cases) = @_;
    for (@$cases) {
        my ($path, $value, $name) = @$_;
        my $object = dclone($base);
        place($object, $path, $value);
        my ($code, $answer) = submit($api, $kind, $object, $path);
        ok $code == 200 || $code == 201, "$kind: accepts $path = " . ($name // JSON::PP->new->canonical->allow_nonref->encode($value))
            or diag explain $answer->{message};
    }
}

sub check_defaults {
    my ($api, $kind, $least, $defaults) = @_;
    my (undef, $made) = $api->post($api->path($kind, $namespace) . '?dryRun=All', $api->object($kind => 'least', %$least));
    is_deeply $made->{spec}, $defaults, "$kind: defaults" or diag explain $made;
}

sub check_kind {
    my ($api, $kind, $table) = @_;
    my ($plural) = $api->path($kind, $namespace) =~ m{([^/]+)$};
    my (undef, $crd) = $api->get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/$plural.edge.limpet.dev");
    my $schema = $crd->{spec}{versions}[0]{schema}{openAPIV3Schema};
    my $known  = constraints($schema);
    my $base   = $api->object($kind => 'whole', %{ $table->{whole} });

    my ($code, $answer) = $api->post($api->path($kind, $namespace), $base);
    is $code, 201, "$kind: the whole object is accepted" or diag explain $answer;
    ($code, $answer) = $api->merge($api->path($kind, $namespace, 'whole') . '/status', { status => $base->{status} });
    is $code, 200, "$kind: its whole status is accepted" or diag explain $answer;
    is_deeply $answer->{spec},   $base->{spec},   "$kind: nothing of the spec was pruned";
    is_deeply $answer->{status}, $base->{status}, "$kind: nothing of the status was pruned";

    my %tested = map { $_ => 1 } map { check_case($api, $kind, $base, $known, $_) } @{ $table->{refused} };
    is_deeply [ grep { !$tested{$_} } sort keys %$known ], [], "$kind: every constraint has a refused example";
    check_types($api, $kind, $base, $schema);
    check_accepted($api, $kind, $base, $table->{accepted});
    check_defaults($api, $kind, $table->{least}, $table->{defaults});
}

return sub {
    my ($api) = @_;
    $api->post('/api/v1/namespaces', { metadata => { name => $namespace } });
    my $tables = do "$FindBin::Bin/cases.pl" or die 'cases.pl: ', $@ || $!;
    check_kind($api, $_, $tables->{$_}) for sort keys %$tables;
};
