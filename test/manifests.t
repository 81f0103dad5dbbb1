#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Manifest files, without any server: what the CRDs refuse `limpet apply` refuses as well, at the same field; what they accept it takes; and a field that
# they do not have is named. The examples are those of test/e2e/crd.t, where a real server says whether they are right.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;
use lib 'test/e2e/crd';
use Place;

my $build  = $ENV{BUILD} // 'build';
my $json   = JSON::PP->new->utf8->canonical->allow_nonref;
my $tables = do './test/e2e/crd/cases.pl' or die 'cases.pl: ', $@ || $!;
my $work   = tempdir(CLEANUP => 1);

# No two places of a copy are the same one.
sub copy { return $json->decode($json->encode(shift)) }

# apply(OBJECT): exit code and what is said.
sub apply {
    my ($object) = @_;
    open my $out, '>', "$work/object.json" or die $!;
    print $out $json->encode($object);
    close $out or die $!;
    my $said = qx($build/limpet --set node.name=whole --set guard.paths=/ --set manifests.dir=$work/directory apply -f $work/object.json 2>&1);
    return ($? >> 8, $said);
}

sub taken {
    my ($object, $name) = @_;
    my ($rc, $said) = apply($object);
    ok $rc == 0, $name or diag $said;
}

# The file ends in the field, but a text with a NUL is no YAML at all.
sub refused {
    my ($object, $path, $name) = @_;
    my ($rc, $said) = apply($object);
    my ($list) = $path =~ /^([^\[]*)/;
    ok $rc == 1 && ($said =~ /a NUL character/ || index($said, $list) >= 0), $name or diag "exit code $rc: $said";
}

sub check_refused {
    my ($kind, $base, $case) = @_;
    my ($path, $keyword, $value) = @$case;
    my $whole = $keyword eq 'required' ? join '.', grep { length } $path, $value : $path;
    return if $whole !~ /^spec\b/;
    my $object = copy($base);
    make_room($object, $path);
    place($object, $whole, $keyword eq 'required' ? () : copy($value));
    refused($object, $path || 'spec', "$kind: $whole $keyword is refused");
}

# objects(VALUE, PATH): each object below it, with its path.
sub objects {
    my ($value, $path) = @_;
    return map { objects($value->[$_], $path . "[$_]") } 0 .. $#$value if ref $value eq 'ARRAY';
    return () if ref $value ne 'HASH';
    return ($path, map { objects($value->{$_}, "$path.$_") } sort keys %$value);
}

sub check_unknown {
    my ($kind, $base) = @_;
    for my $path ('metadata', objects($base->{spec}, 'spec')) {
        next if $path =~ /matchLabels$/;
        my $object = copy($base);
        place($object, "$path.replcias", 3);
        my ($rc, $said) = apply($object);
        ok $rc == 1 && $said =~ /line 1: $kind whole: unknown field \Q$path.replcias\E$/, "$kind: $path.replcias is unknown" or diag "$rc: $said";
    }
}

# outline(SCHEMA, BLANKS): the lines of flow/fields.h, in any order.
sub outline {
    my ($schema, $path) = @_;
    my $node = $schema->{items} // $schema;
    my $any  = $node->{additionalProperties} || $node->{'x-kubernetes-preserve-unknown-fields'} ? '{}' : '';
    return ($path . $any, map { outline($node->{properties}{$_}, "$path.$_") } keys %{ $node->{properties} || {} });
}

# What the build read out of crd/ without a YAML reader, against what one says.
sub check_outline {
    my ($kind, $crd) = @_;
    open my $in, '<', "$build/gen/fields.c" or die "fields.c: $!";
    my (@found, @names, $here);
    while (<$in>) {
        $here = $1 eq $kind if /^    \{ "(\w+)",/;
        next unless $here && /^      "( *)(.*)\\n"/;
        @names = (@names[ 0 .. length($1) - 1 ], $2);
        push @found, join '.', 'spec', @names;
    }
    my @wanted = grep { $_ ne 'spec' } outline($crd->{spec}{versions}[0]{schema}{openAPIV3Schema}{properties}{spec}, 'spec');
    is_deeply [ sort @found ], [ sort @wanted ], "$kind: all of its fields are known, and no other";
}

my $crds = decode_json(scalar qx($build/limpetctl install --print -o json))->{items};
for my $kind (sort keys %$tables) {
    my $table = $tables->{$kind};
    my $base  = { apiVersion => 'edge.limpet.dev/v1alpha1', kind => $kind, metadata => { name => 'whole' }, %{ copy($table->{whole}) } };
    delete $base->{spec}{nodeName};
    my ($crd) = grep { $_->{kind} eq 'CustomResourceDefinition' && $_->{spec}{names}{kind} eq $kind } @$crds;
    check_outline($kind, $crd);
    taken($base, "$kind: one with every field is taken");
    check_refused($kind, $base, $_) for @{ $table->{refused} };
    for my $case (grep { $_->[0] =~ /^spec/ } @{ $table->{accepted} }) {
        my $object = copy($base);
        place($object, $case->[0], copy($case->[1]));
        taken($object, "$kind: takes $case->[0] = " . ($case->[2] // $json->encode($case->[1])));
    }
    check_unknown($kind, $base);
}
done_testing();
