// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const zoneinfo = "/usr/share/zoneinfo"

// Where clocks are set at midnight, by half an hour, by two hours, backwards, or by a day.
var odd = strings.Fields(`Europe/Berlin America/New_York Australia/Lord_Howe America/Sao_Paulo Pacific/Apia Europe/Dublin
	Asia/Kathmandu Pacific/Chatham Africa/Casablanca Antarctica/Troll America/Havana Asia/Beirut Asia/Gaza Africa/Cairo Asia/Tehran
	Asia/Amman America/Santiago America/Asuncion America/Nuuk Pacific/Kiritimati America/St_Johns Asia/Kolkata Europe/London`)

var (
	first = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

type zone struct {
	name    string // of tzdata, or a POSIX TZ string
	loc     *time.Location
	changes []time.Time // of the offset, between first and last
	skipped []time.Time // those that left out most of a day
}

type zones struct {
	r      *rand.Rand
	names  []string
	loaded map[string]*zone
}

func newZones(r *rand.Rand) *zones {
	zs := &zones{r: r, loaded: map[string]*zone{}}
	err := filepath.WalkDir(zoneinfo, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, zoneinfo+"/")
		if err != nil || name == "right" || name == "posix" {
			return fs.SkipDir
		}
		if data, err := os.ReadFile(path); err == nil && bytes.HasPrefix(data, []byte("TZif")) && name != "localtime" {
			zs.names = append(zs.names, name)
		}
		return nil
	})
	if err != nil || len(zs.names) < 200 {
		log.Fatalf("%s has %d zones (%v); is tzdata installed?", zoneinfo, len(zs.names), err)
	}
	return zs
}

func (zs *zones) pick() *zone {
	name := zs.names[zs.r.Intn(len(zs.names))]
	switch zs.r.Intn(10) {
	case 0:
		name = "UTC"
	case 1, 2, 3, 4:
		name = pick(zs.r, odd...)
	case 5:
		return newZone(posix(zs.r))
	}
	if zs.loaded[name] == nil {
		zs.loaded[name] = newZone(name)
	}
	return zs.loaded[name]
}

func newZone(name string) *zone {
	data := []byte(nil)
	if strings.Contains(name, ",") {
		data = file(name)
	} else if read, err := os.ReadFile(filepath.Join(zoneinfo, name)); err == nil {
		data = read
	}
	loc, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		log.Fatalf("zone %s: %v", name, err)
	}
	z := &zone{name: name, loc: loc}
	z.findChanges()
	return z
}

func (z *zone) findChanges() {
	for t := first.In(z.loc); t.Before(last); {
		_, before := t.Zone()
		_, end := t.ZoneBounds()
		if end.IsZero() {
			return
		}
		if !end.After(t) { // on the last day of a leap year a rule gives its beginning
			end = t.Add(24 * time.Hour)
		}
		t = end
		if _, after := t.Zone(); after != before {
			z.changes = append(z.changes, t)
			if after-before > 12*3600 {
				z.skipped = append(z.skipped, t)
			}
		}
	}
}

// instant gives a random one, half of the time one about a change of the clocks, which is then given, too.
func (z *zone) instant(r *rand.Rand) (after, near time.Time) {
	if len(z.changes) == 0 || r.Intn(2) == 0 {
		return time.Unix(first.Unix()+r.Int63n(last.Unix()-first.Unix()), 0).In(z.loc), near
	}
	near = z.changes[r.Intn(len(z.changes))]
	reach := []int64{600, 7200, 86400, 40 * 86400}[r.Intn(4)]
	return near.Add(time.Duration(r.Int63n(2*reach)-reach) * time.Second), near
}

// skipsDayAfter: the library asks for midnight of a day that does not exist, gets that of the day before, and begins again.
func (z *zone) skipsDayAfter(t time.Time) bool {
	for _, s := range z.skipped {
		if s.After(t.AddDate(0, 0, -3)) && s.Before(t.AddDate(6, 0, 0)) {
			return true
		}
	}
	return false
}

// posix makes a rule, of the north or of the south. Its changes keep away from the ends of the year, which Go takes as it is in UTC,
// and from each other, so that they come in the same order each year.
func posix(r *rand.Rand) string {
	std := (r.Intn(26*4) - 14*4) * 900
	dst := std - []int{3600, 1800, 7200, -3600}[r.Intn(4)]
	from, to := posixDay(r, 2), posixDay(r, 7)
	if r.Intn(2) == 0 {
		from, to = to, from
	}
	return fmt.Sprintf("<STD>%s<DST>%s,%s,%s", hms(std), hms(dst), from, to)
}

// posixDay gives a day of month `first` to the fourth after it.
func posixDay(r *rand.Rand, first int) string {
	var day string
	switch r.Intn(4) {
	case 0:
		day = fmt.Sprintf("J%d", first*30+r.Intn(120))
	case 1:
		day = fmt.Sprint(first*30 + r.Intn(120))
	default:
		day = fmt.Sprintf("M%d.%d.%d", first+r.Intn(4), 1+r.Intn(5), r.Intn(7))
	}
	if r.Intn(3) == 0 {
		return day
	}
	return day + "/" + hms((r.Intn(60*4)-48)*900)
}

func hms(s int) string {
	sign := ""
	if s < 0 {
		sign, s = "-", -s
	}
	return strings.TrimSuffix(fmt.Sprintf("%s%d:%02d", sign, s/3600, s/60%60), ":00")
}

// file makes a TZif file of a POSIX TZ string alone.
func file(rule string) []byte {
	var b bytes.Buffer
	for range [2]int{} { // as 32-bit and as 64-bit data
		b.WriteString("TZif2")
		b.Write(make([]byte, 15))
		for _, n := range []uint32{0, 0, 0, 0, 1, 4} { // one local time with a name of three letters, and nothing else
			binary.Write(&b, binary.BigEndian, n)
		}
		b.Write(make([]byte, 6))
		b.WriteString("STD\x00")
	}
	b.WriteString("\n" + rule + "\n")
	return b.Bytes()
}
