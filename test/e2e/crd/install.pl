# SPDX-License-Identifier: Apache-2.0
#
# The manifests as people apply them who have no limpetctl.
use strict;
use warnings;
use Test::More;

my @kinds = qw(edgeapps edgeconfigs edgejobs edgenodes edgepolicies);

sub kubectl {
    my ($arguments) = @_;
    my $output = `$ENV{KUBECTL} $arguments 2>&1`;
    return ($? >> 8, $output);
}

sub condition {
    my ($object, $type) = @_;
    my ($condition) = grep { $_->{type} eq $type } @{ $object->{status}{conditions} || [] };
    return $condition ? $condition->{status} : 'absent';
}

sub check_crd {
    my ($api, $plural) = @_;
    my ($code, $crd) = $api->get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/$plural.edge.limpet.dev");
    is $code, 200, "$plural: the definition is there";
    is condition($crd, 'Established'),         'True',   "$plural: is Established";
    is condition($crd, 'NonStructuralSchema'), 'absent', "$plural: has a structural schema";
    my ($version) = @{ $crd->{spec}{versions} };
    ok exists $version->{subresources}{status}, "$plural: has a status subresource";
    is_deeply $crd->{spec}{names}{categories}, ['edge'], "$plural: is in category edge";
    is_deeply [ map { $_->{jsonPath} } @{ $version->{selectableFields} || [] } ],
        $plural =~ /^(edgenodes|edgepolicies)$/ ? [] : ['.spec.nodeName'], "$plural: selectable fields";
}

# A field without a description is one that `kubectl explain` does not explain.
sub undescribed {
    my ($schema, $path) = @_;
    my @found;
    my @todo = ([ $schema, $path ]);
    while (my $next = shift @todo) {
        my ($node, $at) = @$next;
        push @found, $at unless $node->{description} || $at =~ /\[\]$|\.metadata$/;
        push @todo, [ $node->{items}, $at . '[]' ] if $node->{items};
        push @todo, map { [ $node->{properties}{$_}, "$at.$_" ] } sort keys %{ $node->{properties} || {} };
    }
    return @found;
}

return sub {
    my ($api, $top) = @_;
    my ($code, $output) = kubectl("apply --server-side -f $top/crd");
    is $code, 0, 'kubectl applies crd/' or diag $output;
    unlike $output, qr/warning/i, 'the server warns of nothing' or diag $output;
    ($code, $output) = kubectl("wait --for=condition=Established --timeout=120s " . join ' ', map { "crd/$_.edge.limpet.dev" } @kinds);
    is $code, 0, 'the kinds are served' or diag $output;

    ($code, $output) = kubectl("apply --dry-run=server -f $top/examples");
    is $code, 0, 'the examples are accepted' or diag $output;

    my %before = map { $_ => ($api->get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/$_.edge.limpet.dev"))[1] } @kinds;
    kubectl("apply --server-side -f $top/crd");
    for my $plural (@kinds) {
        check_crd($api, $plural);
        my (undef, $after) = $api->get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/$plural.edge.limpet.dev");
        is $after->{metadata}{resourceVersion}, $before{$plural}{metadata}{resourceVersion}, "$plural: a second apply changes nothing";
        is_deeply [ undescribed($after->{spec}{versions}[0]{schema}{openAPIV3Schema}, $plural) ], [], "$plural: every field is described";
    }
};
