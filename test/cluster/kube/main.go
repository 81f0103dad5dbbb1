// SPDX-License-Identifier: Apache-2.0

// Command kube is kube-apiserver, kube-controller-manager and kubectl in one
// program: they share nearly all of their code, so one binary builds faster and
// is smaller than three. The name it is called by chooses; under any other name
// the first argument does.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func runAPIServer() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) }

func runControllerManager() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) }

func runKubectl() { util.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())) }

var programs = map[string]func(){
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": runControllerManager,
	"kubectl":                 runKubectl,
}

func main() {
	run := programs[filepath.Base(os.Args[0])]
	if run == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		run = programs[os.Args[0]]
	}
	if run == nil {
		fmt.Fprintln(os.Stderr, "usage: kube {kube-apiserver|kube-controller-manager|kubectl} [ARGUMENT...]")
		os.Exit(2)
	}
	run()
}
