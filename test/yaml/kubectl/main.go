// SPDX-License-Identifier: Apache-2.0

// kubectl prints random YAML documents and what sigs.k8s.io/yaml, through which kubectl reads manifests, makes of each.
// test/yaml/diff_test.c reads it and compares. A line:
//
//	document TAB answer
//
// Both have control characters, bytes beyond ASCII and % as %XX; the answer is JSON, or "invalid".
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	seed := flag.Int64("seed", 1, "the same seed gives the same lines")
	cases := flag.Int("cases", 1000, "lines")
	flag.Parse()

	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	r := rand.New(rand.NewSource(*seed))
	for i := 0; i < *cases; i++ {
		text := document(r)
		fmt.Fprintf(out, "%s\t%s\n", escape(text), escape(answer(text)))
	}
}

// Some documents panic the library.
func answer(text string) (json string) {
	defer func() {
		if recover() != nil {
			json = "invalid"
		}
	}()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return "invalid"
	}
	return string(b)
}

func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
