# SPDX-License-Identifier: Apache-2.0
#
# Api: requests to the API server as (code, decoded answer).
package Api;
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP;

my %path_of = (
    EdgeApp    => 'edgeapps',
    EdgeConfig => 'edgeconfigs',
    EdgeJob    => 'edgejobs',
    EdgeNode   => 'edgenodes',
    EdgePolicy => 'edgepolicies',
);
my $json = JSON::PP->new->utf8->canonical->allow_nonref;

sub new {
    my ($class, $url) = @_;
    return bless { url => $url, http => HTTP::Tiny->new(timeout => 120, keep_alive => 1), headers => {} }, $class;
}

# The same API as somebody else. A ServiceAccount is in the groups that every ServiceAccount is in.
sub as {
    my ($self, $namespace, $name) = @_;
    my $groups = [ 'system:serviceaccounts', "system:serviceaccounts:$namespace", 'system:authenticated' ];
    return bless {
        %$self,
        headers => { 'impersonate-user' => "system:serviceaccount:$namespace:$name", 'impersonate-group' => $groups },
    }, ref $self;
}

# request(METHOD, PATH, BODY, TYPE): BODY is a structure or undef.
sub request {
    my ($self, $method, $path, $body, $type) = @_;
    my %headers = %{ $self->{headers} };
    $headers{'content-type'} = $type || 'application/json' if defined $body;
    my $answer = $self->{http}->request(
        $method,
        $self->{url} . $path,
        { headers => \%headers, defined $body ? (content => $json->encode($body)) : () }
    );
    die "$method $path: $answer->{content}" if $answer->{status} == 599;
    my $decoded = eval { $json->decode($answer->{content}) };
    return ($answer->{status}, $decoded);
}

sub get    { my ($self, $path) = @_;        return $self->request(GET  => $path) }
sub post   { my ($self, $path, $body) = @_; return $self->request(POST => $path, $body) }
sub delete { my ($self, $path) = @_;        return $self->request(DELETE => $path) }

sub merge {
    my ($self, $path, $body) = @_;
    return $self->request(PATCH => $path, $body, 'application/merge-patch+json');
}

# path(KIND, NAMESPACE, NAME): without NAME, of the collection.
sub path {
    my ($self, $kind, $namespace, $name) = @_;
    return join '/', "/apis/edge.limpet.dev/v1alpha1/namespaces/$namespace/$path_of{$kind}", defined $name ? $name : ();
}

sub object {
    my ($self, $kind, $name, %members) = @_;
    return { apiVersion => 'edge.limpet.dev/v1alpha1', kind => $kind, metadata => { name => $name }, %members };
}

1;
