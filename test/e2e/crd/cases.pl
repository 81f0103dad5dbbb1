# SPDX-License-Identifier: Apache-2.0
#
# For each kind:
#   whole     an object that uses every field, accepted
#   least     an object with only what is required, and `defaults`, the spec that it becomes
#   refused   [ path, keyword, value, field ]: `value` at `path` of the whole object breaks that keyword of the schema there;
#             `field` is what the server names, if not `path`. For the keyword required, value is the member left out.
#   accepted  [ path, value, name ]: values at the edge of what is allowed
use strict;
use warnings;
use JSON::PP;

my $time = '2026-11-30T12:00:00Z';
my $nul  = "a\0b";

sub long { my ($length) = @_; return 'a' x $length }
sub many { my ($count, $make) = @_; return [ map { $make ? $make->($_) : "$_" } 1 .. $count ] }

my $condition = {
    type => 'Ready', status => 'True', observedGeneration => 3, lastTransitionTime => $time, reason => 'AllReady', message => '',
};

# Conditions are the same everywhere.
sub refused_conditions {
    my $first = 'status.conditions[0]';
    return (
        [ 'status.conditions', maxItems => many(17, sub { ({ %$condition, type => "T$_[0]" }) }) ],
        [ 'status.conditions', unique => [ $condition, $condition ], 'status.conditions[1]' ],
        (map { [ $first, required => $_ ] } qw(type status lastTransitionTime reason message)),
        [ "$first.type", minLength => '' ],
        [ "$first.type", maxLength => long(317) ],
        [ "$first.type", pattern => 'not one word' ],
        [ "$first.status", enum => 'true' ],
        [ "$first.observedGeneration", minimum => -1 ],
        [ "$first.lastTransitionTime", format => 'yesterday' ],
        [ "$first.lastTransitionTime", maxLength => '2026-11-30T12:00:00.' . '0' x 64 . 'Z' ],
        [ "$first.reason", minLength => '' ],
        [ "$first.reason", maxLength => long(1025) ],
        [ "$first.reason", pattern => 'not one word' ],
        [ "$first.message", maxLength => long(32769) ],
    );
}

sub refused_node_name {
    return (
        [ 'spec.nodeName', minLength => '' ],
        [ 'spec.nodeName', maxLength => long(254) ],
        [ 'spec.nodeName', pattern => 'Node_1' ],
    );
}

sub refused_command {
    my ($path) = @_;
    return (
        [ $path, minItems => [] ],
        [ $path, maxItems => many(65) ],
        [ $path, rule => [ '', 'x' ] ],
        [ $path . '[1]', maxLength => long(32768) ],
        [ $path . '[1]', pattern => $nul ],
    );
}

sub refused_account {
    my ($path) = @_;
    return (
        [ $path, minLength => '' ],
        [ $path, maxLength => long(33) ],
        [ $path, pattern => '-root' ],
        [ $path, rule => '4294967295' ],
    );
}

# Where a file or directory lies, and whose it is.
sub refused_place {
    my ($what) = @_;
    return (
        [ "$what.path", minLength => '/' ],
        [ "$what.path", maxLength => '/' . long(1024) ],
        (map { [ "$what.path", pattern => $_ ] } 'etc/f', '/etc/../f', '/..', '/etc/.', '/etc//f', '/etc/', "/a\nb", "/a\0b"),
        [ "$what.mode", minLength => '64' ],
        [ "$what.mode", maxLength => '000644' ],
        [ "$what.mode", pattern => '0648' ],
        refused_account("$what.owner"),
        refused_account("$what.group"),
    );
}

sub refused_range {
    my ($path, $below, $above) = @_;
    return ([ $path, minimum => $below ], [ $path, maximum => $above ]);
}

sub refused_host {
    my ($path) = @_;
    return (
        [ $path, minLength => '' ],
        [ $path, maxLength => '1:' . '0' x 63 ],
        [ $path, pattern => 'example.org' ],
    );
}

my $http = 'spec.readinessProbe.httpGet';

sub refused_probe {
    my ($probe, $most_successes, $most_failures) = @_;
    my $http = "$probe.httpGet";
    return (
        [ $probe, rule => {} ],
        [ $probe, rule => { tcpSocket => { port => 80 }, httpGet => { port => 80 } } ],
        [ $http, required => 'port' ],
        [ "$http.path", minLength => '' ],
        [ "$http.path", maxLength => '/' . long(2048) ],
        [ "$http.path", pattern => "/x HTTP/1.0\r\n" ],
        refused_range("$http.port", 0, 65536),
        refused_host("$http.host"),
        [ "$http.scheme", enum => 'HTTPS' ],
        refused_command("$probe.exec.command"),
        [ "$probe.exec", required => 'command' ],
        [ "$probe.tcpSocket", required => 'port' ],
        refused_range("$probe.tcpSocket.port", 0, 65536),
        refused_host("$probe.tcpSocket.host"),
        refused_range("$probe.initialDelaySeconds", -1, 3601),
        refused_range("$probe.periodSeconds", 0, 3601),
        refused_range("$probe.timeoutSeconds", 0, 301),
        refused_range("$probe.successThreshold", 0, $most_successes + 1),
        refused_range("$probe.failureThreshold", 0, $most_failures + 1),
    );
}

# A reference to an object, and to a key of one.
sub refused_object {
    my ($ref) = @_;
    return (
        [ $ref, required => 'name' ],
        [ "$ref.name", minLength => '' ],
        [ "$ref.name", maxLength => long(254) ],
        [ "$ref.name", pattern => 'No_Name' ],
    );
}

sub refused_key_ref {
    my ($from) = @_;
    return (
        [ $from, rule => {} ],
        [ $from, rule => { secretKeyRef => { name => 'a', key => 'b' }, configMapKeyRef => { name => 'a', key => 'b' } } ],
        map {
            (
                refused_object("$from.$_"),
                [ "$from.$_", required => 'key' ],
                [ "$from.$_.key", minLength => '' ],
                [ "$from.$_.key", maxLength => long(254) ],
                [ "$from.$_.key", pattern => 'a/b' ],
            )
        } qw(secretKeyRef configMapKeyRef)
    );
}

# What a process is started with is the same for apps and jobs.
sub refused_process {
    return (
        [ 'spec.args', maxItems => many(257) ],
        [ 'spec.args[0]', maxLength => long(32768) ],
        [ 'spec.args[0]', pattern => $nul ],
        [ 'spec.env', maxItems => many(257, sub { ({ name => "N$_[0]" }) }) ],
        [ 'spec.env', unique => [ { name => 'A' }, { name => 'A' } ], 'spec.env[1]' ],
        [ 'spec.env[0]', required => 'name' ],
        [ 'spec.env[0].name', minLength => '' ],
        [ 'spec.env[0].name', maxLength => long(257) ],
        [ 'spec.env[0].name', pattern => '1A' ],
        [ 'spec.env[0].value', maxLength => long(32001) ],
        [ 'spec.env[0].value', pattern => $nul ],
        [ 'spec.env[0]', rule => { name => 'A', value => 'x', valueFrom => { secretKeyRef => { name => 'a', key => 'b' } } } ],
        refused_key_ref('spec.env[0].valueFrom'),
        [ 'spec.envFrom', maxItems => many(33, sub { ({ secretRef => { name => 's' } }) }) ],
        [ 'spec.envFrom[0].prefix', maxLength => long(257) ],
        [ 'spec.envFrom[0].prefix', pattern => '1A' ],
        [ 'spec.envFrom[0]', rule => {} ],
        [ 'spec.envFrom[0]', rule => { secretRef => { name => 'a' }, configMapRef => { name => 'a' } } ],
        refused_object('spec.envFrom[0].secretRef'),
        refused_object('spec.envFrom[0].configMapRef'),
        refused_account('spec.user'),
        refused_account('spec.group'),
        [ 'spec.workingDir', minLength => '' ],
        [ 'spec.workingDir', maxLength => '/' . long(4000) ],
        [ 'spec.workingDir', pattern => 'srv' ],
        refused_range('spec.terminationGracePeriodSeconds', -1, 3601),
        [ 'spec.rlimits', maxItems => many(10, sub { ({ name => 'nofile', soft => 1, hard => 1 }) }) ],
        [ 'spec.rlimits', unique => many(2, sub { ({ name => 'nofile', soft => 1, hard => 1 }) }), 'spec.rlimits[1]' ],
        (map { [ 'spec.rlimits[0]', required => $_ ] } qw(name soft hard)),
        [ 'spec.rlimits[0].name', enum => 'NOFILE' ],
        [ 'spec.rlimits[0].soft', minimum => -2 ],
        [ 'spec.rlimits[0].hard', minimum => -2 ],
        [ 'spec.rlimits[0]', rule => { name => 'nofile', soft => 2, hard => 1 } ],
        [ 'spec.rlimits[0]', rule => { name => 'core', soft => -1, hard => 1 } ],
        [ 'spec.resources.limits.cpu', pattern => 'much' ],
        [ 'spec.resources.limits.memory', pattern => '64 MB' ],
        refused_range('spec.resources.limits.pids', 0, 4194305),
        [ 'spec.logs.maxSize', minLength => '' ],
        [ 'spec.logs.maxSize', maxLength => '1' x 13 ],
        [ 'spec.logs.maxSize', pattern => '1.5Mi' ],
        [ 'spec.logs.maxSize', rule => '4095' ],
        [ 'spec.logs.maxSize', rule => '1025Mi' ],
        refused_range('spec.logs.maxFiles', 0, 11),
    );
}

# A liveness or startup probe with every field given.
sub probe_of {
    return {
        httpGet => { path => shift, port => 8080, host => '::1', scheme => 'HTTP' },
        initialDelaySeconds => 1, periodSeconds => 2, timeoutSeconds => 3, successThreshold => 1, failureThreshold => 5,
    };
}

my $app = {
    whole => {
        spec => {
            nodeName => 'edge-1.example',
            command => [ '/bin/app', '$(MODE)' ],
            args => ['--verbose'],
            env => [
                { name => 'MODE', value => 'a b' },
                { name => 'A', value => '', valueFrom => { secretKeyRef => { name => 'db', key => 'user.name', optional => JSON::PP::true } } },
                { name => 'B', value => '', valueFrom => { configMapKeyRef => { name => 'site', key => 'zone', optional => JSON::PP::false } } },
            ],
            envFrom => [
                { prefix => 'DB_', secretRef => { name => 'db', optional => JSON::PP::true } },
                { configMapRef => { name => 'site', optional => JSON::PP::false } },
            ],
            restartOnChange => JSON::PP::true,
            user => 'daemon',
            group => '1000',
            workingDir => '/srv',
            runtime => 'container',
            image => 'registry.example/shop/till:1.2',
            imagePullPolicy => 'IfNotPresent',
            resources => { limits => { cpu => '500m', memory => '64Mi', pids => 100 } },
            replicas => 2,
            restartPolicy => 'OnFailure',
            terminationGracePeriodSeconds => 5,
            readinessProbe => {
                httpGet => { path => '/ready?x=1', port => 8080, host => '::1', scheme => 'HTTP' },
                initialDelaySeconds => 1, periodSeconds => 2, timeoutSeconds => 3, successThreshold => 4, failureThreshold => 5,
            },
            livenessProbe => probe_of('/live'),
            startupProbe => probe_of('/started'),
            suspend => JSON::PP::true,
            update => { maxUnavailable => 2, minReadySeconds => 3, progressDeadlineSeconds => 60, rollback => JSON::PP::false },
            rlimits => [ { name => 'nofile', soft => 1024, hard => 4096 } ],
            logs => { maxSize => '64Ki', maxFiles => 3 },
        },
        status => {
            observedGeneration => 1, revision => 'v1-0123456789abcdef',
            replicas => 2, updatedReplicas => 2, readyReplicas => 0, state => 'CrashLoopBackOff',
            conditions => [$condition],
            failedRevisions => [ { revision => 'v1-0', message => 'too late', at => $time } ],
            instances => [
                {
                    index => 0, pid => 4242, state => 'Running', ready => JSON::PP::true, started => JSON::PP::true, restarts => 7, startedAt => $time,
                    revision => 'v1-0123456789abcdef', lastExit => { code => 1, signal => 9, reason => 'Error', at => $time },
                },
            ],
        },
    },
    least => { spec => { command => ['true'] } },
    defaults => {
        command => ['true'], replicas => 1, restartPolicy => 'Always', terminationGracePeriodSeconds => 30,
        suspend => JSON::PP::false, restartOnChange => JSON::PP::false, update => { maxUnavailable => 1, minReadySeconds => 10, progressDeadlineSeconds => 600, rollback => JSON::PP::true },
        logs => { maxSize => '1Mi', maxFiles => 2 },
    },
    refused => [
        [ '', required => 'spec' ],
        refused_node_name(),
        refused_command('spec.command'),
        refused_process(),
        [ 'spec', rule => { args => ['x'] }, 'spec.command' ],
        [ 'spec', rule => { command => ['x'], runtime => 'container' }, 'spec.runtime' ],
        [ 'spec', rule => { image => 'x', runtime => 'systemd' }, 'spec.runtime' ],
        [ 'spec', rule => { command => ['x'], imagePullPolicy => 'Never' }, 'spec.imagePullPolicy' ],
        [ 'spec', rule => { image => 'x', group => 'daemon' }, 'spec.group' ],
        [ 'spec', rule => { image => 'x', rlimits => [ { name => 'as', soft => 1, hard => 1 } ] }, 'spec.rlimits' ],
        [ 'spec.image', minLength => '' ],
        [ 'spec.image', maxLength => long(513) ],
        [ 'spec.image', pattern => '--privileged' ],
        [ 'spec.imagePullPolicy', enum => 'Sometimes' ],
        [ 'spec.runtime', enum => 'kubelet' ],
        refused_range('spec.replicas', -1, 33),
        [ 'spec.restartPolicy', enum => 'Sometimes' ],
        refused_probe('spec.readinessProbe', 100, 100),
        refused_probe('spec.livenessProbe', 1, 100),
        refused_probe('spec.startupProbe', 1, 1000),
        refused_range('spec.update.maxUnavailable', 0, 33),
        refused_range('spec.update.minReadySeconds', -1, 3601),
        refused_range('spec.update.progressDeadlineSeconds', 0, 86401),

        [ 'status.observedGeneration', minimum => -1 ],
        [ 'status.revision', maxLength => long(65) ],
        [ 'status.replicas', minimum => -1 ],
        [ 'status.updatedReplicas', minimum => -1 ],
        [ 'status.readyReplicas', minimum => -1 ],
        [ 'status.state', enum => 'Fine' ],
        refused_conditions(),
        [ 'status.failedRevisions', maxItems => many(9, sub { ({ revision => 'x' }) }) ],
        [ 'status.failedRevisions[0]', required => 'revision' ],
        [ 'status.failedRevisions[0].revision', maxLength => long(65) ],
        [ 'status.failedRevisions[0].message', maxLength => long(1025) ],
        [ 'status.failedRevisions[0].at', format => 'yesterday' ],
        [ 'status.failedRevisions[0].at', maxLength => '2026-11-30T12:00:00.' . '0' x 64 . 'Z' ],
        [ 'status.instances', maxItems => many(33, sub { ({ index => 1 }) }) ],
        [ 'status.instances[0]', required => 'index' ],
        refused_range('status.instances[0].index', -1, 32),
        [ 'status.instances[0].pid', minimum => -1 ],
        [ 'status.instances[0].state', maxLength => 'A' . long(32) ],
        [ 'status.instances[0].state', pattern => 'not one word' ],
        [ 'status.instances[0].restarts', minimum => -1 ],
        [ 'status.instances[0].startedAt', format => 'yesterday' ],
        [ 'status.instances[0].startedAt', maxLength => '2026-11-30T12:00:00.' . '0' x 64 . 'Z' ],
        [ 'status.instances[0].revision', maxLength => long(65) ],
        refused_range('status.instances[0].lastExit.code', -1, 256),
        refused_range('status.instances[0].lastExit.signal', -1, 65),
        [ 'status.instances[0].lastExit.reason', maxLength => long(129) ],
        [ 'status.instances[0].lastExit.reason', pattern => 'not one word' ],
        [ 'status.instances[0].lastExit.at', format => 'yesterday' ],
        [ 'status.instances[0].lastExit.at', maxLength => '2026-11-30T12:00:00.' . '0' x 64 . 'Z' ],
    ],
    accepted => [
        [ 'spec.user', '0' ], [ 'spec.user', '4294967294' ], [ 'spec.user', '_apt' ], [ 'spec.user', 'Machine.Name-1$' ],
        [ 'spec.replicas', 0 ], [ 'spec.replicas', 32 ],
        [ 'spec.resources.limits.cpu', 2 ], [ 'spec.resources.limits.cpu', '0.5' ], [ 'spec.resources.limits.memory', 67108864 ],
        [ 'spec.terminationGracePeriodSeconds', 0 ], [ 'spec.terminationGracePeriodSeconds', 3600 ],
        [ 'spec', { image => 'shop/till@sha256:' . '0' x 64 } ], [ 'spec', { image => 'x', args => ['y'], runtime => 'container' } ],
        [ 'spec.workingDir', '/' ], [ 'spec.env', [] ], [ 'spec.env[0].value', '' ], [ 'spec.env[0].value', "two\nlines" ],
        [ 'spec.args', ['$(MODE)$$(X)'] ], [ 'spec.args', [''] ],
        [ 'spec.readinessProbe', { exec => { command => ['true'] } } ],
        [ 'spec.livenessProbe', { exec => { command => ['true'] } } ],
        [ 'spec.startupProbe', { tcpSocket => { port => 65535 } } ],
        [ 'spec.update', {} ],
        [ 'spec.readinessProbe', { tcpSocket => { port => 65535 } } ],
        [ 'spec.readinessProbe', { tcpSocket => { port => 1, host => 'localhost' } } ],
        [ "$http.host", 'fe80::1' ], [ "$http.host", '10.0.0.1' ], [ "$http.path", '/' ],
        [ 'spec.rlimits[0]', { name => 'memlock', soft => -1, hard => -1 } ],
        [ 'spec.rlimits[0]', { name => 'core', soft => 0, hard => -1 } ],
        [ 'spec.rlimits[0]', { name => 'cpu', soft => 5, hard => 5 } ],
        [ 'spec.logs.maxSize', '4Ki' ], [ 'spec.logs.maxSize', '1Gi' ], [ 'spec.logs.maxSize', '10M' ], [ 'spec.logs.maxSize', '65536' ],
        [ 'status.readyReplicas', 0 ], [ 'status.instances', [] ],
        [ 'status.conditions[0].type', 'example.org/Paid' ],
    ],
};

my $file = 'spec.files[0]';

my $config = {
    whole => {
        spec => {
            nodeName => 'edge-1',
            directories => [ { path => '/etc/app', mode => '0750', owner => 'root', group => 'daemon' }, { path => '/etc/app/d' } ],
            files => [
                { path => '/etc/app/app.conf', content => "port=1\n", encoding => 'utf-8', template => JSON::PP::true, mode => '0640', owner => 'root', group => 'daemon' },
                { path => '/etc/app/key', content => "AAEC\nAw==\n", encoding => 'base64', template => JSON::PP::false, mode => '600' },
                { path => '/etc/app/token', encoding => 'utf-8', template => JSON::PP::false, contentFrom => { secretKeyRef => { name => 'app', key => 'token', optional => JSON::PP::true } } },
                { path => '/etc/app/site', encoding => 'utf-8', template => JSON::PP::false, contentFrom => { configMapKeyRef => { name => 'app', key => 'site', optional => JSON::PP::false } } },
            ],
            validate => { command => [ 'test', '-s', '$(STAGED_FILE)' ], timeoutSeconds => 5 },
            onChange => { command => [ 'systemctl', 'reload', 'app' ], timeoutSeconds => 6 },
            confirmSeconds => 60,
            deletionPolicy => 'Keep',
        },
        status => {
            observedGeneration => 1, revision => 'v1-0123456789abcdef', files => 2, directories => 2, lastAppliedTime => $time, driftRepairs => 5,
            differences => [ { path => '/etc/app/app.conf', field => 'mode', want => '0640', have => '0777' } ],
            conditions => [$condition],
        },
    },
    least => { spec => { files => [ { path => '/f', content => '' } ] } },
    defaults => {
        files => [ { path => '/f', content => '', encoding => 'utf-8', template => JSON::PP::false } ], deletionPolicy => 'Restore',
    },
    refused => [
        [ '', required => 'spec' ],
        [ 'spec', rule => {}, 'spec.files' ],
        [ 'spec', rule => { directories => [ { path => '/f' } ], files => [ { path => '/f', content => '' } ] } ],
        [ 'spec', rule => { directories => [ { path => '/f/d' } ], files => [ { path => '/f', content => '' } ] } ],
        refused_node_name(),
        [ 'spec.files', minItems => [] ],
        [ 'spec.files', maxItems => many(65, sub { ({ path => "/f$_[0]", content => '' }) }) ],
        [ 'spec.files', unique => many(2, sub { ({ path => '/f', content => '' }) }), 'spec.files[1]' ],
        [ 'spec.files', rule => [ { path => '/a/b', content => '' }, { path => '/a/b/c', content => '' } ] ],
        [ 'spec.directories', minItems => [] ],
        [ 'spec.directories', maxItems => many(33, sub { ({ path => "/d$_[0]" }) }) ],
        [ 'spec.directories', unique => many(2, sub { ({ path => '/d' }) }), 'spec.directories[1]' ],
        [ 'spec.directories[0]', required => 'path' ],
        [ $file, required => 'path' ],
        [ $file, rule => { path => '/f' } ],
        [ $file, rule => { path => '/f', content => 'x', contentFrom => { secretKeyRef => { name => 'a', key => 'b' } } } ],
        [ $file, rule => { path => '/f', template => JSON::PP::true, contentFrom => { secretKeyRef => { name => 'a', key => 'b' } } } ],
        refused_key_ref("$file.contentFrom"),
        refused_place($file),
        refused_place('spec.directories[0]'),
        [ "$file.content", maxLength => long(1048577) ],
        [ "$file.encoding", enum => 'gzip' ],
        [ $file, anyOf => { path => '/f', encoding => 'base64', content => 'not base64!' }, "$file.content" ],
        [ $file, anyOf => { path => '/f', encoding => 'base64', content => 'AA=A' }, "$file.content" ],
        [ 'spec.validate', required => 'command' ],
        (map { (refused_command("$_.command"), refused_range("$_.timeoutSeconds", 0, 301)) } qw(spec.validate spec.onChange)),
        [ 'spec.onChange', rule => {} ],
        [ 'spec.onChange', rule => { command => ['x'], app => { name => 'a', signal => 'HUP' } } ],
        (map { [ 'spec.onChange.app', rule => $_ ] } { name => 'a' }, { name => 'a', restart => JSON::PP::false },
                { name => 'a', signal => 'HUP', restart => JSON::PP::true }),
        [ 'spec.onChange.app', required => 'name' ],
        [ 'spec.onChange.app.name', minLength => '' ],
        [ 'spec.onChange.app.name', maxLength => long(254) ],
        [ 'spec.onChange.app.name', pattern => 'A_b' ],
        [ 'spec.onChange.app.signal', enum => 'KILL' ],
        refused_range('spec.confirmSeconds', 9, 3601),
        [ 'spec.deletionPolicy', enum => 'Orphan' ],

        [ 'status.observedGeneration', minimum => -1 ],
        [ 'status.revision', maxLength => long(65) ],
        [ 'status.files', minimum => -1 ],
        [ 'status.directories', minimum => -1 ],
        [ 'status.lastAppliedTime', format => 'yesterday' ],
        [ 'status.lastAppliedTime', maxLength => '2026-11-30T12:00:00.' . '0' x 64 . 'Z' ],
        [ 'status.driftRepairs', minimum => -1 ],
        [ 'status.differences', maxItems => many(17, sub { ({ path => "/$_[0]", field => 'mode' }) }) ],
        [ 'status.differences[0]', required => 'path' ],
        [ 'status.differences[0]', required => 'field' ],
        [ 'status.differences[0].path', maxLength => long(4097) ],
        [ 'status.differences[0].field', maxLength => long(65) ],
        [ 'status.differences[0].want', maxLength => long(257) ],
        [ 'status.differences[0].have', maxLength => long(257) ],
        refused_conditions(),
    ],
    accepted => [
        (map { [ "$file.path", $_ ] } '/f', '/.hidden', '/...', '/..f', '/a/.b/..c/d.e', '/with space/ü'),
        (map { [ "$file.mode", $_ ] } '0644', '644', '4755', '04755', '0000'),
        [ "$file.content", long(1048576), 'a text of 1 MiB' ],
        [ $file, { path => '/f', encoding => 'base64', content => '' } ],
        [ $file, { path => '/f', encoding => 'base64', content => "AAEC\r\nAwQF\r\n" } ],
        [ $file, { path => '/f', content => 'not base64!' } ],
        [ 'spec.files', [ { path => '/a', content => '' }, { path => '/ab', content => '' } ] ],
        [ 'spec.validate.timeoutSeconds', 300 ],
        [ 'spec.onChange', { app => { name => 'web', signal => 'HUP' } } ],
        [ 'spec.onChange', { app => { name => 'web.two', restart => JSON::PP::true } } ],
        [ 'status.files', 0 ], [ 'status.differences', [] ],
    ],
};

sub refused_time {
    my ($path) = @_;
    return ([ $path, format => 'yesterday' ], [ $path, maxLength => '2026-11-30T12:00:00.' . '0' x 64 . 'Z' ]);
}

my $job = {
    whole => {
        spec => {
            nodeName => 'edge-1',
            schedule => '*/15 6-22 * * MON-FRI',
            timeZone => 'Europe/Berlin',
            startingDeadlineSeconds => 600,
            concurrencyPolicy => 'Forbid',
            suspend => JSON::PP::false,
            execution => 'AtMostOnce',
            backoffLimit => 0,
            activeDeadlineSeconds => 3600,
            successfulJobsHistoryLimit => 2,
            failedJobsHistoryLimit => 2,
            outputLimitBytes => 512,
            command => [ '/bin/job', '$(MODE)' ],
            args => ['--verbose'],
            env => [ { name => 'MODE', value => 'a b' }, { name => 'A', value => '', valueFrom => { secretKeyRef => { name => 'db', key => 'pw', optional => JSON::PP::false } } } ],
            envFrom => [ { prefix => 'S_', configMapRef => { name => 'site', optional => JSON::PP::true } } ],
            user => 'daemon',
            group => '1000',
            workingDir => '/srv',
            terminationGracePeriodSeconds => 5,
            resources => { limits => { cpu => '500m', memory => '64Mi', pids => 100 } },
            rlimits => [ { name => 'nofile', soft => 1024, hard => 4096 } ],
            logs => { maxSize => '64Ki', maxFiles => 3 },
        },
        status => {
            observedGeneration => 1, state => 'Running', revision => '1-0123456789ab',
            active => [ { name => 'j-29384750', scheduledTime => $time, startTime => $time, attempts => 1, state => 'Running' } ],
            runs => [
                {
                    name => 'j-29384749', scheduledTime => $time, startTime => $time, completionTime => $time, outcome => 'Failed',
                    attempts => 2, exitCode => 1, signal => 9, reason => 'Error', output => "no\n",
                },
            ],
            succeeded => 1, failed => 2, skipped => 3, missed => 4,
            lastScheduleTime => $time, lastSuccessfulTime => $time, nextScheduleTime => $time, conditions => [$condition],
        },
    },
    least => { spec => { command => ['true'] } },
    defaults => {
        command => ['true'], execution => 'AtLeastOnce', suspend => JSON::PP::false, successfulJobsHistoryLimit => 3,
        failedJobsHistoryLimit => 1, outputLimitBytes => 1024, terminationGracePeriodSeconds => 30,
        logs => { maxSize => '1Mi', maxFiles => 2 },
    },
    refused => [
        [ '', required => 'spec' ],
        [ 'spec', required => 'command' ],
        [ 'spec', rule => { command => ['true'], execution => 'AtMostOnce', backoffLimit => 1 }, 'spec.backoffLimit' ],
        [ 'spec', rule => { command => ['true'], timeZone => 'UTC' }, 'spec.timeZone' ],
        [ 'spec', rule => { command => ['true'], startingDeadlineSeconds => 60 }, 'spec.startingDeadlineSeconds' ],
        refused_node_name(),
        refused_command('spec.command'),
        refused_process(),
        [ 'spec.schedule', minLength => '' ],
        [ 'spec.schedule', maxLength => long(257) ],
        [ 'spec.schedule', pattern => "* * * *\n*" ],
        [ 'spec.timeZone', minLength => '' ],
        [ 'spec.timeZone', maxLength => long(129) ],
        [ 'spec.timeZone', pattern => "UTC\n" ],
        refused_range('spec.startingDeadlineSeconds', 0, 31622401),
        [ 'spec.concurrencyPolicy', enum => 'Queue' ],
        [ 'spec.execution', enum => 'ExactlyOnce' ],
        refused_range('spec.backoffLimit', -1, 1001),
        refused_range('spec.activeDeadlineSeconds', 0, 31622401),
        refused_range('spec.successfulJobsHistoryLimit', -1, 11),
        refused_range('spec.failedJobsHistoryLimit', -1, 11),
        refused_range('spec.outputLimitBytes', -1, 4097),

        [ 'status.observedGeneration', minimum => -1 ],
        [ 'status.state', enum => 'Fine' ],
        [ 'status.revision', maxLength => long(65) ],
        [ 'status.active', maxItems => many(17, sub { ({ name => "r$_[0]" }) }) ],
        [ 'status.active[0]', required => 'name' ],
        [ 'status.active[0].name', maxLength => long(321) ],
        [ 'status.active[0].attempts', minimum => -1 ],
        [ 'status.active[0].state', maxLength => 'A' . long(32) ],
        [ 'status.active[0].state', pattern => 'not one word' ],
        [ 'status.runs', maxItems => many(21, sub { ({ name => "r$_[0]", outcome => 'Failed' }) }) ],
        (map { [ 'status.runs[0]', required => $_ ] } qw(name outcome)),
        [ 'status.runs[0].name', maxLength => long(321) ],
        [ 'status.runs[0].outcome', enum => 'Fine' ],
        [ 'status.runs[0].attempts', minimum => -1 ],
        refused_range('status.runs[0].exitCode', -1, 256),
        refused_range('status.runs[0].signal', -1, 65),
        [ 'status.runs[0].reason', maxLength => long(129) ],
        [ 'status.runs[0].reason', pattern => 'not one word' ],
        [ 'status.runs[0].output', maxLength => long(16385) ],
        (map { [ "status.$_", minimum => -1 ] } qw(succeeded failed skipped missed)),
        (map { refused_time("status.$_") } qw(active[0].scheduledTime active[0].startTime runs[0].scheduledTime runs[0].startTime
                runs[0].completionTime lastScheduleTime lastSuccessfulTime nextScheduleTime)),
        refused_conditions(),
    ],
    accepted => [
        [ 'spec', { command => ['true'], execution => 'AtMostOnce' }, 'AtMostOnce without a backoffLimit' ],
        [ 'spec.schedule', '@every 90m' ], [ 'spec.schedule', '0 4 1,15 * ?' ],
        [ 'spec.timeZone', 'CET-1CEST,M3.5.0,M10.5.0/3' ],
        [ 'spec.outputLimitBytes', 0 ], [ 'spec.failedJobsHistoryLimit', 0 ], [ 'status.runs', [] ], [ 'status.active', [] ],
    ],
};

my $info = 'status.nodeInfo';

my $node = {
    whole => {
        spec => { description => 'Hall 3, second cabinet' },
        status => {
            observedGeneration => 1,
            nodeInfo => {
                machineID => '0' x 32, bootID => '00000000-0000-0000-0000-000000000000', kernelVersion => '6.1.0-1-amd64',
                osImage => 'Debian GNU/Linux 12 (bookworm)', architecture => 'x86_64', hostname => 'edge-1', agentVersion => '0.1.0',
                port => 'exec',
            },
            capacity => { cpu => '4', memory => '3921772Ki' },
            addresses => [ { type => 'InternalIP', address => '192.0.2.1' } ],
            conditions => [$condition],
        },
    },
    least => {},
    defaults => undef,
    refused => [
        [ 'spec.description', maxLength => long(257) ],
        [ 'status.observedGeneration', minimum => -1 ],
        (map { [ "$info.$_", maxLength => long(65) ] } qw(machineID bootID architecture agentVersion)),
        (map { [ "$info.$_", maxLength => long(257) ] } qw(kernelVersion osImage hostname)),
        [ "$info.port", maxLength => long(33) ],
        (map { ([ "status.capacity.$_", maxLength => '1' x 33 ], [ "status.capacity.$_", pattern => 'much' ]) } qw(cpu memory)),
        [ 'status.addresses', maxItems => many(33, sub { ({ type => 'InternalIP', address => "192.0.2.$_[0]" }) }) ],
        [ 'status.addresses[0]', required => 'type' ],
        [ 'status.addresses[0]', required => 'address' ],
        [ 'status.addresses[0].type', enum => 'IP' ],
        [ 'status.addresses[0].address', minLength => '' ],
        [ 'status.addresses[0].address', maxLength => long(254) ],
        refused_conditions(),
    ],
    accepted => [
        [ 'spec.description', '' ], [ 'spec.description', long(256) ], [ 'status.capacity.cpu', '1500m' ],
    ],
};

sub refused_duration {
    my ($path, $below, $above) = @_;
    return (
        [ $path, minLength => '' ],
        [ $path, maxLength => '1' x 32 . 's' ],
        [ $path, pattern => '5 minutes' ],
        [ $path, rule => $below ],
        [ $path, rule => $above ],
    );
}

sub refused_windows {
    my ($path) = @_;
    my $first = $path . '[0]';
    return (
        [ $path, maxItems => many(17, sub { ({ daily => '22:00-06:00' }) }) ],
        (map { [ $first, rule => $_ ] } {}, { daily => '22:00-06:00', duration => '1h' }, { start => '02:00' }, { schedule => '0 2 * * *' },
            { start => '02:00', schedule => '0 2 * * *', duration => '1h' }, { schedule => '0 2 * * *', days => ['Sun'], duration => '1h' }),
        [ "$first.daily", minLength => '1:00-02:00' ],
        [ "$first.daily", maxLength => '01:00-02:000' ],
        [ "$first.daily", pattern => '22:00-24:00' ],
        [ "$first.schedule", minLength => '' ],
        [ "$first.schedule", maxLength => long(129) ],
        [ "$first.days", minItems => [] ],
        [ "$first.days", maxItems => [ qw(Sun Mon Tue Wed Thu Fri Sat Sun) ] ],
        [ $first . '.days[0]', enum => 'Sunday' ],
        [ "$first.start", minLength => '2:00' ],
        [ "$first.start", maxLength => '02:000' ],
        [ "$first.start", pattern => '24:00' ],
        refused_duration("$first.duration", '59s', '169h'),
        [ "$first.timeZone", minLength => '' ],
        [ "$first.timeZone", maxLength => long(65) ],
    );
}

my $window = { days => ['Sat'], start => '02:00', duration => '2h', timeZone => 'Europe/Berlin' };
my $rule = 'spec.offline[0]';

my $policy = {
    whole => {
        spec => {
            priority => 10,
            nodeSelector => { matchLabels => { place => 'hall', 'example.org/line' => '' } },
            sync => { mode => 'watch', interval => '30s', metered => { mode => 'poll', interval => '5m', windows => [$window] } },
            lease => { interval => '20s', duration => '1m' },
            offline => [ { selector => { kinds => ['EdgeApp'], names => ['web'], matchLabels => { safe => 'yes' } }, behavior => 'RunOnly', after => '1h' } ],
            outbox => { maxEvents => 100, shedFirst => 'Normal' },
            maintenance => { windows => [$window] },
        },
        status => { observedGeneration => 2, inForceGeneration => 1, conditions => [$condition] },
    },
    least => { spec => {} },
    defaults => {},
    refused => [
        [ '', required => 'spec' ],
        refused_range('spec.priority', -1000001, 1000001),
        [ 'spec.sync.mode', enum => 'push' ],
        refused_duration('spec.sync.interval', '499ms', '25h'),
        [ 'spec.sync.metered.mode', enum => 'push' ],
        refused_duration('spec.sync.metered.interval', '499ms', '25h'),
        refused_windows('spec.sync.metered.windows'),
        refused_duration('spec.lease.interval', '999ms', '25h'),
        refused_duration('spec.lease.duration', '1999ms', '25h'),
        [ 'spec.lease', rule => { interval => '20s', duration => '39s' } ],
        [ 'spec.offline', maxItems => many(17, sub { ({ behavior => 'Keep' }) }) ],
        [ $rule, required => 'behavior' ],
        [ "$rule.behavior", enum => 'Pause' ],
        [ "$rule.selector.kinds", maxItems => [ ('EdgeApp') x 9 ] ],
        [ "$rule.selector.kinds[0]", enum => 'EdgeConfig' ],
        [ "$rule.selector.names", maxItems => many(65) ],
        [ "$rule.selector.names[0]", minLength => '' ],
        [ "$rule.selector.names[0]", maxLength => long(254) ],
        refused_duration("$rule.after", '9s', '87601h'),
        refused_range('spec.outbox.maxEvents', 9, 1000001),
        [ 'spec.outbox.shedFirst', enum => 'Newest' ],
        refused_windows('spec.maintenance.windows'),
        [ 'status.observedGeneration', minimum => -1 ],
        [ 'status.inForceGeneration', minimum => -1 ],
        refused_conditions(),
    ],
    accepted => [
        [ 'spec.sync.interval', '500ms' ], [ 'spec.sync.interval', '24h' ], [ 'spec.sync.interval', '1h30m0.5s' ],
        [ 'spec.lease', { interval => '20s', duration => '40s' } ], [ 'spec.lease', { interval => '10h' } ],
        [ 'spec.maintenance.windows', [] ], [ 'spec.maintenance.windows', [ { daily => '22:00-06:00' } ] ],
        [ 'spec.maintenance.windows', [ { schedule => '30 2 * * SAT', duration => '1h' } ] ],
        [ 'spec.maintenance.windows', [ { start => '23:59', duration => '1m' } ] ],
        [ 'spec.offline', [ { behavior => 'Keep' } ] ], [ "$rule.after", '10s' ],
        [ 'status.inForceGeneration', 0 ],
    ],
};

return { EdgeApp => $app, EdgeConfig => $config, EdgeJob => $job, EdgeNode => $node, EdgePolicy => $policy };
