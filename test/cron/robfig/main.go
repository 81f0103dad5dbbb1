// SPDX-License-Identifier: Apache-2.0

// robfig prints random schedules, zones and instants, and what github.com/robfig/cron/v3, the library of Kubernetes' CronJob, makes
// of each. test/cron/diff_test.c reads it and compares. A line:
//
//	schedule TAB zone TAB instant TAB answer
//
// The schedule has control characters, bytes beyond ASCII and % as %XX; instants are seconds since 1970; the answer is the next
// run, "never", "invalid", or "still" where the library would never answer: the zone left out a whole day within its reach. A "<" before
// it: where clocks were set back the library gave a run that is not after the instant, and was asked again from each full minute after it.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const casesPerZone = 50 // one after the other, so that who reads loads a zone once

func main() {
	seed := flag.Int64("seed", 1, "the same seed gives the same lines")
	cases := flag.Int("cases", 1000, "lines")
	flag.Parse()

	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	r := rand.New(rand.NewSource(*seed))
	zones := newZones(r)
	var z *zone
	for i := 0; i < *cases; i++ {
		if i%casesPerZone == 0 {
			z = zones.pick()
		}
		printCase(out, r, z)
	}
}

func printCase(out *bufio.Writer, r *rand.Rand, z *zone) {
	after, near := z.instant(r)
	text := schedule(r, near)
	// The library can stand still; nobody waits for it for ever.
	dog := time.AfterFunc(30*time.Second, func() { log.Fatalf("no answer: %q in %s after %d", text, z.name, after.Unix()) })
	defer dog.Stop()
	fmt.Fprintf(out, "%s\t%s\t%d\t%s\n", escape(text), z.name, after.Unix(), answer(text, z, after))
}

func answer(text string, z *zone, after time.Time) string {
	s, err := parse(text)
	if err != nil {
		return "invalid"
	}
	if z.skipsDayAfter(after) {
		return "still"
	}
	next, back := s.Next(after), ""
	for from := after; !next.IsZero() && !next.After(after); back = "<" {
		from = from.Add(time.Second).Truncate(time.Minute).Add(time.Minute - time.Second) // so from the next full minute on
		next = s.Next(from)
	}
	if next.IsZero() {
		return back + "never"
	}
	return back + fmt.Sprint(next.Unix())
}

// parse refuses what the API server refuses: a panic of the library is an error, and the zone has a field of its own.
func parse(text string) (s cron.Schedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if strings.Contains(text, "TZ") {
		return nil, fmt.Errorf("a zone in the schedule")
	}
	return cron.ParseStandard(text)
}

func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
