# SPDX-License-Identifier: Apache-2.0
#
# What a node may do: exactly the list below, in its own namespace only, as the server itself counts it and as it answers.
use strict;
use warnings;
use Test::More;

my %namespace_of = ('edge-1' => 'edge-edge-1', 'edge-2' => 'edge-edge-2');

my @own_rules = (
    [ 'edge.limpet.dev',     'edgeapps',              '',                 'get list watch' ],
    [ 'edge.limpet.dev',     'edgeapps/status',       '',                 'get patch' ],
    [ 'edge.limpet.dev',     'edgeconfigs',           '',                 'get list watch' ],
    [ 'edge.limpet.dev',     'edgeconfigs/status',    '',                 'get patch' ],
    [ 'edge.limpet.dev',     'edgejobs',              '',                 'get list watch' ],
    [ 'edge.limpet.dev',     'edgejobs/status',       '',                 'get patch' ],
    [ 'edge.limpet.dev',     'edgenodes',             '',                 'get list watch' ],
    [ 'edge.limpet.dev',     'edgenodes/status',      '',                 'get patch' ],
    [ 'edge.limpet.dev',     'edgepolicies',          '',                 'get list watch' ],
    [ 'edge.limpet.dev',     'edgepolicies/status',   '',                 'get patch' ],
    [ 'events.k8s.io',       'events',                '',                 'create patch' ],
    [ 'coordination.k8s.io', 'leases',                '',                 'create get patch' ],
    [ '',                    'namespaces',            'edge-edge-1',      'get' ],
    [ '',                    'serviceaccounts/token', 'limpet',           'create' ],
    [ '',                    'secrets',               '',                 'get list watch' ],
    [ '',                    'configmaps',            '',                 'get list watch' ],
);
my @kube_system_rules = ([ '', 'namespaces', 'kube-system', 'get' ]);
my @shared_rules = ([ 'edge.limpet.dev', 'edgepolicies', '', 'get list watch' ], [ '', 'namespaces', 'edge-system', 'get' ]);

sub apply_node {
    my ($top, $node, $namespace) = @_;
    open my $in, '<', "$top/crd/node.yaml.in" or die "node.yaml.in: $!";
    my $manifest = join '', <$in>;
    $manifest =~ s/\@NODE\@/$node/g;
    $manifest =~ s/\@NAMESPACE\@/$namespace/g;
    open my $kubectl, '|-', "$ENV{KUBECTL} apply --server-side -f - >&2" or die "kubectl: $!";
    print $kubectl $manifest;
    return close $kubectl;
}

# rules(API, NAMESPACE): one line a resource, as in the lists above.
sub rules {
    my ($api, $namespace) = @_;
    my (undef, $review) = $api->post('/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', { spec => { namespace => $namespace } });
    my %verbs;
    for my $rule (@{ $review->{status}{resourceRules} }) {
        for my $group (@{ $rule->{apiGroups} }) {
            for my $resource (@{ $rule->{resources} }) {
                my $of = join '|', $group, $resource, join ',', @{ $rule->{resourceNames} || [] };
                $verbs{$of}{$_} = 1 for @{ $rule->{verbs} };
            }
        }
    }
    return { map { $_ => join ' ', sort keys %{ $verbs{$_} } } keys %verbs };
}

# What every ServiceAccount may do anyway (ask who it is) is what one without any binding may do.
sub check_rules {
    my ($api, $node, $namespace, @wanted) = @_;
    my $have   = rules($api->as($namespace_of{$node}, 'limpet'), $namespace);
    my $anyway = rules($api->as($namespace_of{$node}, 'nobody'), $namespace);
    delete @{$have}{ grep { $have->{$_} eq $anyway->{$_} } keys %$anyway };
    is_deeply $have, { map { join('|', @{$_}[ 0 .. 2 ]) => $_->[3] } @wanted }, "$node: its rights in $namespace" or diag explain $have;
}

sub check_answers {
    my ($api) = @_;
    my $node  = $api->as('edge-edge-1', 'limpet');
    my $own   = $api->path(EdgeApp => 'edge-edge-1');
    my $other = $api->path(EdgeApp => 'edge-edge-2');
    my $shared = $api->path(EdgePolicy => 'edge-system');
    my $all   = '/apis/edge.limpet.dev/v1alpha1/edgeapps';
    my $app   = $api->object(EdgeApp => 'app', spec => { command => ['true'] });
    $api->post($own, $app);
    $api->post($other, $app);
    $api->post($shared, $api->object(EdgePolicy => 'fleet', spec => {}));

    my @requests = (
        [ 'lists its own apps',                      200, GET    => $own ],
        [ 'watches its own apps',                    200, GET    => "$own?watch=1&timeoutSeconds=1" ],
        [ 'patches the status of its app',           200, PATCH  => "$own/app/status", { status => { replicas => 0 } } ],
        [ 'not the spec of its app',                 403, PATCH  => "$own/app", { spec => { replicas => 0 } } ],
        [ 'not the finalizers of its app',           403, PATCH  => "$own/app", { metadata => { finalizers => ['example.org/x'] } } ],
        [ 'not through the finalizers subresource',  403, PATCH  => "$own/app/finalizers", { metadata => { finalizers => [] } } ],
        [ 'does not delete its app',                 403, DELETE => "$own/app" ],
        [ 'does not create apps',                    403, POST   => $own, $api->object(EdgeApp => 'new', spec => { command => ['true'] }) ],
        [ 'does not scale its app',                  403, PATCH  => "$own/app/scale", { spec => { replicas => 0 } } ],
        [ 'does not list another node\'s apps',      403, GET    => $other ],
        [ 'does not patch another node\'s status',   403, PATCH  => "$other/app/status", { status => { replicas => 0 } } ],
        [ 'does not list the apps of all nodes',     403, GET    => $all ],
        [ 'lists the shared policies',               200, GET    => $shared ],
        [ 'does not make shared policies',           403, POST   => $shared, $api->object(EdgePolicy => 'new', spec => {}) ],
        [ 'nor writes their status',                 403, PATCH  => "$shared/fleet/status", { status => { inForceGeneration => 1 } } ],
        [ 'lists no shared apps',                    403, GET    => $api->path(EdgeApp => 'edge-system') ],
        [ 'gets the shared namespace',               200, GET    => '/api/v1/namespaces/edge-system' ],
        [ 'gets its own namespace',                  200, GET    => '/api/v1/namespaces/edge-edge-1' ],
        [ 'gets kube-system',                        200, GET    => '/api/v1/namespaces/kube-system' ],
        [ 'no other namespace',                      403, GET    => '/api/v1/namespaces/edge-edge-2' ],
        [ 'no list of namespaces',                   403, GET    => '/api/v1/namespaces' ],
        [ 'reads the secrets of its namespace',      200, GET    => '/api/v1/namespaces/edge-edge-1/secrets' ],
        [ 'and its configmaps',                      200, GET    => '/api/v1/namespaces/edge-edge-1/configmaps' ],
        [ 'no secrets of another node',              403, GET    => '/api/v1/namespaces/edge-edge-2/secrets' ],
        [ 'none of all namespaces',                  403, GET    => '/api/v1/secrets' ],
        [ 'writes none',                             403, PATCH  => '/api/v1/namespaces/edge-edge-1/secrets/a', { data => {} } ],
        [ 'nothing else in kube-system',             403, GET    => '/api/v1/namespaces/kube-system/configmaps' ],
        [ 'renews its own token',                    201, POST   => '/api/v1/namespaces/edge-edge-1/serviceaccounts/limpet/token', { spec => {} } ],
        [ 'makes no token for others',               403, POST   => '/api/v1/namespaces/edge-edge-1/serviceaccounts/default/token', { spec => {} } ],
        [ 'renews its Lease',                        200, PATCH  => '/apis/coordination.k8s.io/v1/namespaces/edge-edge-1/leases/edge-1',
            { spec => { holderIdentity => 'x' } } ],
    );
    for (@requests) {
        my ($name, $wanted, $method, $path, $body) = @$_;
        my ($code, $answer) = $node->request($method, $path, $body, $method eq 'PATCH' ? 'application/merge-patch+json' : undef);
        is $code, $wanted, "a node $name" or diag explain $answer->{message};
    }
}

# people(API, ROLE, VERB): whether somebody with a built-in role in a node's namespace may VERB its apps.
sub check_people {
    my ($api) = @_;
    my @rights = ([ view => 'list' => 1 ], [ view => 'create' => 0 ], [ edit => 'list' => 1 ], [ edit => 'create' => 0 ], [ admin => 'create' => 1 ],
        [ 'limpet-edit' => 'create' => 1 ], [ 'limpet-edit' => 'get' => 1 ], [ 'limpet-view' => 'delete' => 0 ]);
    for my $role (qw(view edit admin limpet-edit limpet-view)) {
        $api->post('/apis/rbac.authorization.k8s.io/v1/namespaces/edge-edge-1/rolebindings', {
            metadata => { name => "people-$role" },
            roleRef  => { apiGroup => 'rbac.authorization.k8s.io', kind => 'ClusterRole', name => $role },
            subjects => [ { apiGroup => 'rbac.authorization.k8s.io', kind => 'User', name => "person-$role" } ],
        });
    }
    for (@rights) {
        my ($role, $verb, $wanted) = @$_;
        my (undef, $review) = $api->post('/apis/authorization.k8s.io/v1/subjectaccessreviews', {
            spec => {
                user => "person-$role",
                resourceAttributes => { namespace => 'edge-edge-1', verb => $verb, group => 'edge.limpet.dev', resource => 'edgeapps' },
            },
        });
        is $review->{status}{allowed} ? 1 : 0, $wanted, "a person with role $role may" . ($wanted ? '' : ' not') . " $verb apps";
    }
}

sub check_wildcards {
    my ($api) = @_;
    my $rbac = '/apis/rbac.authorization.k8s.io/v1';
    my @lists = map { ($api->get("$rbac/$_?labelSelector=app.kubernetes.io/part-of=limpet"))[1] } qw(clusterroles roles);
    my @roles = map { @{ $_->{items} } } @lists;
    is scalar @roles, 6, 'the roles are labelled: three for the cluster, one for what is shared, one for each of two nodes';
    for my $role (@roles) {
        my @words = map { my $rule = $_; map { @{ $rule->{$_} || [] } } qw(apiGroups resources resourceNames verbs) } @{ $role->{rules} };
        is_deeply [ grep { /\*/ } @words ], [], "no wildcard in $role->{metadata}{name}";
    }
}

# can_aggregate(API): the built-in roles are put together by the controller manager, some time after a ClusterRole came.
sub wait_for_aggregation {
    my ($api) = @_;
    for (1 .. 600) {
        my (undef, $admin) = $api->get('/apis/rbac.authorization.k8s.io/v1/clusterroles/admin');
        my (undef, $view) = $api->get('/apis/rbac.authorization.k8s.io/v1/clusterroles/view');
        return 1 if 2 == grep { my $role = $_; grep { grep { $_ eq 'edgeapps' } @{ $_->{resources} || [] } } @{ $role->{rules} || [] } } $admin, $view;
        select undef, undef, undef, 0.2;
    }
    return 0;
}

return sub {
    my ($api, $top) = @_;
    ok apply_node($top, $_, $namespace_of{$_}), "the manifests of $_ apply" for sort keys %namespace_of;
    check_rules($api, 'edge-1', 'edge-edge-1', @own_rules);
    check_rules($api, 'edge-1', $_) for qw(edge-edge-2 default);
    check_rules($api, 'edge-1', 'edge-system', @shared_rules);
    check_rules($api, 'edge-1', 'kube-system', @kube_system_rules);
    check_answers($api);
    ok wait_for_aggregation($api), 'the built-in roles take in the edge resources';
    check_people($api);
    check_wildcards($api);
};
