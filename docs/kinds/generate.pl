#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# generate.pl [DIRECTORY]: one page for each kind, made from what `limpetctl install --print -o json` prints (standard input) and from the examples
# of that kind. The descriptions in crd/ are the manual; these pages are the same text for reading in a browser. `make kinds` runs it, and
# test/kinds.t fails when a page is not what it would write.
use strict;
use warnings;
use JSON::PP;

my $out      = shift // 'docs/kinds';
my $crds     = JSON::PP->new->utf8->decode(do { local $/; <STDIN> })->{items};
my $examples = 'examples';

# What a member of the schema is, in a few words: type, default, bounds.
sub kind_of {
    my ($s) = @_;
    my $type = $s->{type} // 'any';
    $type = 'list of ' . kind_of($s->{items}) if $type eq 'array';
    $type = 'map of ' . kind_of($s->{additionalProperties}) if ref $s->{additionalProperties};
    return $type eq 'object' ? 'object' : $type;
}

sub code { return map { "`$_`" } @_ }

sub text_of {
    my ($value) = @_;
    return JSON::PP->new->allow_nonref->canonical->encode($value);
}

sub bounds {
    my ($s) = @_;
    my @b;
    push @b, 'one of ' . join(', ', code(@{ $s->{enum} })) if $s->{enum};
    if (defined $s->{minimum} && $s->{minimum} == ($s->{maximum} // $s->{minimum} - 1)) { push @b, "only $s->{minimum}" }
    elsif (defined $s->{minimum} && defined $s->{maximum}) { push @b, "$s->{minimum}..$s->{maximum}" }
    elsif (defined $s->{minimum})                       { push @b, "at least $s->{minimum}" }
    elsif (defined $s->{maximum})                       { push @b, "at most $s->{maximum}" }
    push @b, "at most $s->{maxItems} items"             if defined $s->{maxItems};
    push @b, "at least $s->{minItems} items"            if ($s->{minItems} // 0) > 1;
    push @b, "at most $s->{maxLength} characters"       if defined $s->{maxLength};
    push @b, "date and time as in RFC 3339"             if ($s->{format} // '') eq 'date-time';
    push @b, 'default ' . join '', code(text_of($s->{default})) if exists $s->{default} && $s->{type} ne 'object';
    return join '; ', @b;
}

# In a cell of a table: one line, and nothing that ends the cell.
sub cell {
    my ($text) = @_;
    $text =~ s/\s+/ /g;
    $text =~ s/\|/\\|/g;
    $text =~ s/^ | $//g;
    return $text;
}

# rows(PATH, SCHEMA, REQUIRED): a line for the member, and one for each below it.
sub rows {
    my ($path, $s, $required) = @_;
    my $what = join '; ', grep { length } kind_of($s) . ($required ? ', **required**' : ''), bounds($s);
    my $text = $s->{description} // '';
    $text .= join '', map { " Rule: $_->{message}." } @{ $s->{'x-kubernetes-validations'} || [] };
    my @rows = ('| ' . join(' | ', "`$path`", cell($what), cell($text)) . " |\n");
    return (@rows, members("${path}[]", $s->{items})) if $s->{items};
    return (@rows, members($path, $s));
}

sub members {
    my ($path, $s) = @_;
    my %required = map { $_ => 1 } @{ $s->{required} || [] };
    my $p = $s->{properties} or return;
    return map { rows("$path.$_", $p->{$_}, $required{$_}) } sort { ($required{$b} // 0) <=> ($required{$a} // 0) || $a cmp $b } keys %$p;
}

sub table {
    my ($name, $schema) = @_;
    my @rows = members($name, $schema) or return '';
    my $text = cell($schema->{description} // '');
    return join '', "## $name\n\n$text\n\n| field | what it is | what it does |\n|---|---|---|\n", @rows, "\n";
}

sub examples_of {
    my ($kind) = @_;
    my @found;
    for my $file (sort glob "$examples/*.yaml") {
        open my $in, '<', $file or die "$file: $!";
        my @lines = <$in>;
        next unless grep { /^kind: \Q$kind\E$/ } @lines;
        my ($title) = map { /^# (?!SPDX)(\S.*)/ ? $1 : () } @lines;
        push @found, "- [" . ($file =~ s{.*/}{}r) . "](../../$file): $title\n";
    }
    return @found ? "## Examples\n\n" . join('', @found) . "\n" : '';
}

sub page {
    my ($crd) = @_;
    my $spec    = $crd->{spec};
    my $names   = $spec->{names};
    my ($v)     = grep { $_->{storage} } @{ $spec->{versions} };
    my $schema  = $v->{schema}{openAPIV3Schema};
    my $short   = join ', ', code(@{ $names->{shortNames} || [] });
    my $columns = join "\n", map { "- **$_->{name}**: " . ($_->{description} // "$_->{jsonPath}") } @{ $v->{additionalPrinterColumns} || [] };
    return join '', "<!-- Made by docs/kinds/generate.pl from crd/$names->{plural}.yaml. Change that. -->\n# $names->{kind}\n\n",
        cell($schema->{description}), "\n\n",
        "`apiVersion: $spec->{group}/$v->{name}`, `kind: $names->{kind}`; \\`kubectl get $names->{plural}\\`" =~ s/\\`/`/gr,
        ($short ? " (short: $short)" : ''), ".\n\n", examples_of($names->{kind}),
        table('spec', $schema->{properties}{spec} // {}), table('status', $schema->{properties}{status} // {}),
        ($columns ? "## Columns of kubectl get\n\n$columns\n" : '');
}

my @index;
for my $crd (grep { $_->{kind} eq 'CustomResourceDefinition' } @$crds) {
    my $name = lc $crd->{spec}{names}{kind};
    my ($v) = grep { $_->{storage} } @{ $crd->{spec}{versions} };
    open my $to, '>:encoding(UTF-8)', "$out/$name.md" or die "$out/$name.md: $!";
    print $to page($crd);
    close $to or die "$out/$name.md: $!";
    my ($first) = cell($v->{schema}{openAPIV3Schema}{description}) =~ /^(.*?\.)(?: |$)/;
    push @index, "- [$crd->{spec}{names}{kind}]($name.md): $first\n";
}
open my $to, '>:encoding(UTF-8)', "$out/README.md" or die "$out/README.md: $!";
print $to "<!-- Made by docs/kinds/generate.pl. -->\n# The kinds\n\n", @index;
close $to or die "$out/README.md: $!";
