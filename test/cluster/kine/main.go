// SPDX-License-Identifier: Apache-2.0

// Command kine stores the cluster's objects in an SQLite file and speaks
// etcd's protocol to the API server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/k3s-io/kine/pkg/app"
)

func main() {
	err := app.New().Run(os.Args)
	// Being told to stop by a signal is the ordinary end.
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "kine:", err)
		os.Exit(1)
	}
}
