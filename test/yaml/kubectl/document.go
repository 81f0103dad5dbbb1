// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand"
	"strings"
)

// Documents as people write them, with what trips readers; one in eight is damaged afterwards. Left out are the things that we take and
// the library does not: "\/", a tag that touches a comma, [!!str,x], and a question mark within flow text, [a?b].
func document(r *rand.Rand) string {
	g := &generator{r: r}
	text := g.block(0, 3)
	if r.Intn(6) == 0 {
		text = "---\n" + text
	}
	if r.Intn(20) == 0 {
		text = "# a comment\n" + text
	}
	if r.Intn(30) == 0 {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if r.Intn(8) == 0 {
		text = damage(r, text)
	}
	return text
}

type generator struct {
	r       *rand.Rand
	anchors []string // of mappings
	values  []string // of anything
}

func pick(r *rand.Rand, from []string) string { return from[r.Intn(len(from))] }

var plain = []string{
	"web", "nginx:1.25", "a b c", "/usr/bin/env", "http://x.example/y;z=1#frag", "it's", "x-y_z.0", "é", "\U0001F600 face", "-x", "a#b", "a #c",
	"yes", "No", "on", "OFF", "y", "n", "Y", "N", "true", "False", "TRUE", "tRue", "~", "null", "Null", "NULL", "nULL",
	"0", "-0", "+0", "1", "-1", "+7", "007", "0644", "0755", "-0644", "08", "09.5", "0o644", "0O17", "0o8", "0x1f", "0XFF", "-0x1", "0x", "0xG",
	"0b101", "-0b11", "0b2", "0b", "1_000", "1__0", "_1", "1_", "0x_1f", "0_7", "1_0.5", ".5", ".5_0", "._5", "5.", "-.5", "+.5e3", "1e3", "1E-2", "1e+2",
	"1e", "1e+", "e3", "1.2.3", "1.5e400", "1e-400", "-1e400", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
	"-9223372036854775809", "18446744073709551615", "18446744073709551616", "+9223372036854775808", "0xFFFFFFFFFFFFFFFF", "0x10000000000000000",
	"01777777777777777777777", "02000000000000000000000", "12345678901234567890123", "1234567890123456789012345678901234567890",
	"2026-11-30", "2026-11-30T22:00:00Z", "2026-11-30 22:00:00", "12:30", "12:30:45", "190:20:30", "1:2", ".", "..", "-", "--", "+", "1-2", "500m", "64Mi",
	"<<", "=", "@x", "`x", "%x", "!x", "&x", "*x", "|x", ">x", "[x", "{x", "]", "}", ",x", "x, y", "? x", ": x", "x: y", "x:", "- x", "#x", "'x", "\"x",
	".inf", "-.Inf", "+.INF", ".nan", ".NaN", ".inF", "!!str 1", "!!int 3", "!!int x", "!!float 3", "!!bool yes", "!!bool 1", "!!null ~", "! 2",
	"!!int \"3\"", "!!str 'x'", "!!str ~",
}

var quoted = []string{
	`"a\tb\nc"`, `"\x41\u00e9\U0001F600"`, `"\0"`, `"q\"q\\"`, `"\e\a\_\N\L\P"`, `"\q"`, `""`, `''`, `'it''s'`, `"yes"`, `'0644'`, `"two
  lines"`, `'two

  paragraphs'`, `"folded\
  here"`, `"\ud83d\ude00"`, `"tab	inside"`, `" edge "`, `' edge '`,
}

var keys = []string{
	"name", "spec", "mode", "env", "args", "metadata", "a", "b", "c", "app.kubernetes.io/name", "x y", "\"quoted key\"", "'single'", "yes", "on", "1",
	"0x10", "true", "é", "-k", "k-1", "a:b", "1_0", "!!str 2",
}

func pad(n int) string { return strings.Repeat(" ", n) }

// A node that begins on a line of its own, indented by n.
func (g *generator) block(n, depth int) string {
	switch {
	case depth == 0:
		return pad(n) + g.scalar(n) + "\n"
	case g.r.Intn(3) == 0:
		return g.sequence(n, depth)
	default:
		return g.mapping(n, depth)
	}
}

func (g *generator) mapping(n, depth int) string {
	var b strings.Builder
	used := map[string]bool{}
	if len(g.anchors) > 0 && g.r.Intn(4) == 0 {
		b.WriteString(pad(n) + "<<: " + g.merged() + "\n")
	}
	for i := 1 + g.r.Intn(4); i > 0; i-- {
		k := pick(g.r, keys)
		if used[k] && g.r.Intn(10) > 0 {
			continue
		}
		used[k] = true
		b.WriteString(pad(n) + k + ":" + g.value(n, depth) + g.comment())
	}
	if len(g.anchors) > 0 && g.r.Intn(12) == 0 {
		b.WriteString(pad(n) + "<<: " + g.merged() + "\n")
	}
	return b.String()
}

func (g *generator) merged() string {
	a := "*" + pick(g.r, g.anchors)
	switch g.r.Intn(8) {
	case 0:
		return "[" + a + ", *" + pick(g.r, g.anchors) + "]"
	case 1:
		return "{inline: 1, b: 2}"
	case 2:
		return "[" + a + ", {c: 3}]"
	case 3:
		return pick(g.r, []string{"x", "[1]", "~", "{}", "[]"})
	}
	return a
}

func (g *generator) comment() string {
	if g.r.Intn(12) == 0 {
		return "  # about the above\n\n"
	}
	return ""
}

func (g *generator) sequence(n, depth int) string {
	var b strings.Builder
	for i := 1 + g.r.Intn(3); i > 0; i-- {
		if g.r.Intn(3) == 0 && depth > 1 { // "- " and the node on the same line
			inner := g.block(n+2, depth-1)
			b.WriteString(pad(n) + "- " + strings.TrimLeft(inner, " "))
			continue
		}
		b.WriteString(pad(n) + "-" + g.value(n, depth))
	}
	return b.String()
}

// What follows "key:" or "-", up to and with the end of the line.
func (g *generator) value(n, depth int) string {
	switch g.r.Intn(12) {
	case 0, 1, 2:
		if depth > 1 {
			return g.anchored(n, depth)
		}
	case 3:
		return g.literal(n)
	case 4:
		return " " + g.flow(2) + "\n"
	case 5:
		return "\n"
	case 6:
		if len(g.values) > 0 {
			return " *" + pick(g.r, g.values) + "\n"
		}
	}
	if g.r.Intn(10) == 0 {
		return " " + g.anchor(&g.values) + " " + g.scalar(n+2) + "\n"
	}
	return " " + g.scalar(n+2) + "\n"
}

func (g *generator) anchor(into *[]string) string {
	name := fmt.Sprintf("n%d", g.r.Intn(6))
	*into = append(*into, name)
	return "&" + name
}

// An anchor may be used only when its node is complete, most of the time.
func (g *generator) anchored(n, depth int) string {
	inner := n + 1 + g.r.Intn(3)
	if g.r.Intn(3) > 0 {
		return "\n" + g.block(inner, depth-1)
	}
	body := g.mapping(inner, depth-1)
	name := g.anchor(&g.anchors)
	g.values = append(g.values, name[1:])
	return " " + name + "\n" + body
}

func (g *generator) literal(n int) string {
	head := " " + pick(g.r, []string{"|", ">", "|-", ">-", "|+", ">+", "|2", ">1-", "| # why", "|9"})
	indent := n + 1 + g.r.Intn(3)
	var b strings.Builder
	for i := g.r.Intn(5); i > 0; i-- {
		b.WriteString(pick(g.r, []string{"", pad(indent) + "text here", pad(indent+2) + "deeper", pad(indent) + "# no comment", pad(indent) + "a: b",
			pad(indent) + "\ttab", pad(indent)}) + "\n")
	}
	return head + "\n" + b.String()
}

func (g *generator) scalar(n int) string {
	switch g.r.Intn(6) {
	case 0:
		return strings.ReplaceAll(pick(g.r, quoted), "\n  ", "\n"+pad(n+1))
	case 1:
		return pick(g.r, plain) + "\n" + pad(n+1) + "goes on"
	}
	return pick(g.r, plain)
}

func (g *generator) flow(depth int) string {
	if depth == 0 {
		if g.r.Intn(4) == 0 {
			return pick(g.r, quoted)
		}
		return pick(g.r, plain)
	}
	var items []string
	object := g.r.Intn(2) == 0
	for i := g.r.Intn(4); i > 0; i-- {
		item := g.flow(depth - 1 - g.r.Intn(depth))
		if object {
			item = pick(g.r, keys) + ": " + item
		}
		items = append(items, item)
	}
	text := strings.Join(items, pick(g.r, []string{", ", ",", " , "}))
	if g.r.Intn(8) == 0 {
		text += ","
	}
	if object {
		return "{" + text + "}"
	}
	return "[" + text + "]"
}

func damage(r *rand.Rand, text string) string {
	if len(text) == 0 {
		return text
	}
	at := r.Intn(len(text))
	switch r.Intn(4) {
	case 0:
		return text[:at]
	case 1:
		return text[:at] + text[at+1:]
	case 2:
		return text[:at] + pick(r, []string{"\t", " ", "\n", ":", "- ", "\"", "'", "{", "]", "#", "\x01", "\xff", ","}) + text[at:]
	}
	return text[:at] + text[at+r.Intn(len(text)-at):]
}
