// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand"
	"strings"
	"time"
)

var (
	months = strings.Fields("JAN feb Mar APR may Jun JUL aug Sep OCT nov Dec")
	days   = strings.Fields("SUN mon Tue WED thu Fri SAT")
)

// schedule makes a text that is mostly valid; often one that is due about the time of day of `near`, where clocks are set.
func schedule(r *rand.Rand, near time.Time) string {
	var text string
	switch n := r.Intn(100); {
	case n < 4:
		text = pick(r, "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
	case n < 8:
		text = "@every " + duration(r)
	case n < 12: // the ends of months: leap days, and days that never come
		text = fmt.Sprintf("%d %d %d %s *", r.Intn(60), r.Intn(24), 28+r.Intn(4), pick(r, "2", "feb", "4,JUN", "9,nov", "*", "*/3"))
	case n < 34 && !near.IsZero():
		text = dueAbout(r, near)
	default:
		text = strings.Join([]string{
			field(r, 0, 59, nil), field(r, 0, 23, nil), field(r, 1, 31, nil), field(r, 1, 12, months), field(r, 0, 6, days),
		}, " ")
	}
	if r.Intn(8) == 0 {
		text = spoil(r, text)
	}
	return text
}

func dueAbout(r *rand.Rand, near time.Time) string {
	t := near.Add(time.Duration(r.Intn(5)-2) * time.Hour)
	f := []string{pick(r, "*", "0", "30", "*/20", fmt.Sprint(r.Intn(60))), fmt.Sprint(t.Hour()), "*", "*", "*"}
	switch r.Intn(4) {
	case 0:
		f[2], f[3] = fmt.Sprint(t.Day()), fmt.Sprint(int(t.Month()))
	case 1:
		f[4] = fmt.Sprint(int(t.Weekday()))
	case 2:
		f[2] = fmt.Sprint(t.Day())
	}
	return strings.Join(f, " ")
}

func field(r *rand.Rand, min, max int, names []string) string {
	if n := r.Intn(10); n < 4 {
		return pick(r, "*", "*", "*", "?")
	} else if n < 6 {
		return value(r, min, max, names)
	}
	items := make([]string, 1+r.Intn(3))
	for i := range items {
		items[i] = item(r, min, max, names)
	}
	return strings.Join(items, ",")
}

func item(r *rand.Rand, min, max int, names []string) string {
	low := min + r.Intn(max-min+1)
	high := low + r.Intn(max-low+1)
	var s string
	switch r.Intn(3) {
	case 0:
		s = word(r, low, min, names)
	case 1:
		s = word(r, low, min, names) + "-" + word(r, high, min, names)
	default:
		s = pick(r, "*", "?")
	}
	if r.Intn(3) == 0 {
		s += fmt.Sprintf("/%d", 1+r.Intn(max))
	}
	return s
}

func value(r *rand.Rand, min, max int, names []string) string {
	return word(r, min+r.Intn(max-min+1), min, names)
}

func word(r *rand.Rand, v, min int, names []string) string {
	if names != nil && r.Intn(2) == 0 {
		return names[v-min]
	}
	return fmt.Sprint(v)
}

func duration(r *rand.Rand) string {
	return pick(r,
		time.Duration(r.Int63n(int64(100*time.Hour))).String(),
		fmt.Sprintf("%dm", r.Intn(3000)),
		fmt.Sprintf("%d.%ds", r.Intn(100), r.Intn(1000)),
		fmt.Sprintf("%dh%dus", r.Intn(100), r.Int63n(1e12)),
		fmt.Sprintf("%s%dms", pick(r, "+", "-"), r.Intn(100000)),
		"0", ".5h", "1.h", "7\u00b5s", "9223372036854775807ns", "2562047h", "2562048h", "-2562047h47m16.854775808s")
}

// spoil edits a text in one to three places.
func spoil(r *rand.Rand, s string) string {
	pieces := []string{"0", "1", "7", "60", "99", "*", "?", "/", "-", ",", "+", " ", "\t", "\u00a0", "\u2003", "\u3000", "@", ".", "%", "a",
		"L", "W", "#", "MON", "dec", "TZ=", "CRON_TZ=UTC ", "18446744073709551616", "9223372036854775807", "\x80", "\u00b5s"}
	for n := 1 + r.Intn(3); n > 0; n-- {
		at := r.Intn(len(s) + 1)
		end := at
		if r.Intn(2) == 0 && at < len(s) {
			end = at + 1
		}
		with := pieces[r.Intn(len(pieces))]
		if r.Intn(4) == 0 {
			with = ""
		}
		s = s[:at] + with + s[end:]
	}
	return s
}

func pick(r *rand.Rand, of ...string) string {
	return of[r.Intn(len(of))]
}
