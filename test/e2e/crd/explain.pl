# SPDX-License-Identifier: Apache-2.0
#
# What kubectl shows: explain, columns, short names, category, field selector, scale.
use strict;
use warnings;
use Test::More;

# explain's output is wrapped at a width of its own.
sub output_of {
    my ($arguments) = @_;
    my $output = `$ENV{KUBECTL} $arguments 2>&1`;
    $output =~ s/\s+/ /g;
    return $output;
}

my @taught = (
    [ 'edgeapp',                      'A program that one machine keeps running.' ],
    [ 'edgeapp.spec',                 'Only `command`, or an `image`, is required.' ],
    [ 'edgeapp.spec.command',         'No shell takes part' ],
    [ 'edgeapp.spec.restartPolicy',   'doubles up to 5 min' ],
    [ 'edgeapp.spec.restartPolicy',   'ENUM: Always OnFailure Never' ],
    [ 'edgeapp.spec.readinessProbe',  'Give exactly one of exec, httpGet and tcpSocket.' ],
    [ 'edgeapp.spec.rlimits',         '<[]Object>' ],
    [ 'eapp.spec.logs',               'maxSize times maxFiles bytes' ],
    [ 'edgeapp.status',               'compare observedGeneration with metadata.generation' ],
    [ 'edgeconfig',                   'Files that one machine keeps as given here, and directories.' ],
    [ 'ecfg.spec.files',              'How `content` is written down.' ],
    [ 'edgeconfig.spec.validate',     '$(STAGED_DIR)' ],
    [ 'edgeconfig.spec.onChange',     'It is owed until it has succeeded once' ],
    [ 'edgeconfig.spec.deletionPolicy', 'what lay there before comes back' ],
    [ 'edgejob',                      'A program that one machine runs to its end' ],
    [ 'edgejob.spec',                 'once more after each change of command' ],
    [ 'ejob.spec.schedule',           'as in a CronJob' ],
    [ 'edgejob.spec.execution',       'recorded as Unknown and never tried again' ],
    [ 'edgejob.spec.concurrencyPolicy', 'ENUM: Allow Forbid Replace' ],
    [ 'edgejob.status.runs',          'Finished runs, the newest first' ],
    [ 'enode',                        '`limpetctl node list` tells it' ],
    [ 'edgenode.status.conditions',   'IdentityLost' ],
    [ 'edgepolicy',                   'A policy in a node\'s own namespace is for that node' ],
    [ 'epol.spec.maintenance.windows', 'gets the condition Waiting' ],
    [ 'epol.spec.offline.behavior',   'RunOnly: all others are.' ],
);

my @columns = (
    [ eapp  => 'NAME STATE READY DESIRED REASON AGE' ],
    [ ecfg  => 'NAME READY REASON FILES REPAIRS AGE' ],
    [ ejob  => 'NAME STATE SCHEDULE SUCCEEDED FAILED LAST NEXT AGE' ],
    [ enode => 'NAME VERSION ARCH OS ADDRESS AGE' ],
    [ epol  => 'NAME PRIORITY ACCEPTED REASON AGE' ],
);

sub check_selector {
    my ($api) = @_;
    for my $node (qw(here there)) {
        $api->post($api->path(EdgeApp => 'default'),
            $api->object(EdgeApp => "at-$node", spec => { command => ['true'], nodeName => $node }));
    }
    is output_of('get eapp -n default --field-selector spec.nodeName=here -o name'), 'edgeapp.edge.limpet.dev/at-here ',
        'spec.nodeName is a field selector';
}

sub check_scale {
    my ($api) = @_;
    my $said = output_of('scale eapp at-here -n default --replicas=3');
    my (undef, $app) = $api->get($api->path(EdgeApp => 'default', 'at-here'));
    is $app->{spec}{replicas}, 3, 'kubectl scale sets replicas' or diag $said;
    like output_of('scale eapp at-here -n default --replicas=33'), qr/less than or equal to 32/, 'kubectl scale keeps the bound';
}

# The server publishes what explain reads some time after the kinds are served.
sub wait_for_schemas {
    my ($api) = @_;
    for (1 .. 600) {
        my (undef, $schemas) = $api->get('/openapi/v3/apis/edge.limpet.dev/v1alpha1');
        return 1 if 5 == grep { /EdgeApp$|EdgeConfig$|EdgeJob$|EdgeNode$|EdgePolicy$/ } keys %{ $schemas->{components}{schemas} || {} };
        select undef, undef, undef, 0.2;
    }
    return 0;
}

return sub {
    my ($api) = @_;
    ok wait_for_schemas($api), 'the schemas are published';
    for (@taught) {
        my ($path, $text) = @$_;
        like output_of("explain $path"), qr/\Q$text\E/, "explain $path: $text";
    }
    check_selector($api);
    check_scale($api);
    $api->post($api->path(EdgeConfig => 'default'), $api->object(EdgeConfig => 'one', spec => { files => [ { path => '/f', content => '' } ] }));
    $api->post($api->path(EdgeJob    => 'default'), $api->object(EdgeJob => 'one', spec => { command => ['true'] }));
    $api->post($api->path(EdgeNode   => 'default'), $api->object(EdgeNode => 'one'));
    $api->post($api->path(EdgePolicy => 'default'), $api->object(EdgePolicy => 'one', spec => {}));
    for (@columns) {
        my ($kind, $header) = @$_;
        like output_of("get $kind -n default"), qr/^\Q$header\E /, "get $kind: $header";
    }
    my $all = output_of('get edge -n default -o name');
    like $all, qr{edgeapp\S+/at-here .*edgeconfig\S+/one .*edgejob\S+/one .*edgenode\S+/one .*edgepolicy\S+/one}, 'get edge lists every kind';
    $api->delete($api->path(@$_)) for [ EdgeApp => 'default' ], [ EdgeConfig => 'default' ], [ EdgeJob => 'default' ], [ EdgeNode => 'default' ],
        [ EdgePolicy => 'default' ];
};
