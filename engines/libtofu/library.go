// Copyright 2026 The Holdfast authors
// SPDX-License-Identifier: Apache-2.0

// OpenTofu as a library. This file is added to OpenTofu's package `cmd/tofu`; build.py renames
// `makeShutdownCh` there, so that the one below is used. A call runs one command as the program would,
// and leaves nothing behind for the next command. One command runs at a time.

package main

// #include <stdint.h>
import "C"

import (
	"context"
	"io"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/otel"
)

var (
	running sync.Mutex // Held while a command runs.

	interrupts     sync.Mutex // Guards the three below.
	currentName    string
	currentChannel chan struct{}
	// Cancels that arrived before their command. One that arrives after it stays here: the caller
	// uses each name once.
	early = map[string]int{}
)

// Every provider process that was ever started: go-plugin never removes one.
//
//go:linkname managedClients github.com/hashicorp/go-plugin.managedClients
var managedClients []*plugin.Client

// Without a log, OpenTofu would still format every line of it.
func init() {
	for _, name := range []string{"TF_LOG", "TF_LOG_CORE", "TF_LOG_PROVIDER", "TF_LOG_CLOUD", "TF_LOG_PATH", envTmpLogPath} {
		if os.Getenv(name) != "" {
			return
		}
	}
	log.SetOutput(io.Discard)
}

// RunCli runs a command that cannot be cancelled. It closes both descriptors.
//
//export RunCli
func RunCli(argc C.int64_t, argv **C.char, out, err C.int64_t) C.int {
	return RunCliWithCancel(nil, argc, argv, out, err)
}

// RunCliWithCancel runs a command and returns its exit code. It closes both descriptors.
//
//export RunCliWithCancel
func RunCliWithCancel(name *C.char, argc C.int64_t, argv **C.char, out, err C.int64_t) C.int {
	args := []string{"tofu"}
	for _, arg := range unsafe.Slice(argv, argc) {
		args = append(args, C.GoString(arg))
	}
	stdout := openOutput(out, "/dev/stdout")
	defer stdout.Close()
	stderr := stdout
	if err != out {
		stderr = openOutput(err, "/dev/stderr")
		defer stderr.Close()
	}

	running.Lock()
	defer running.Unlock()
	if name != nil {
		// As many interrupts as the program keeps while it does not read them.
		setCurrent(C.GoString(name), make(chan struct{}, 4))
		defer setCurrent("", nil)
	}
	return C.int(run(args, stdout, stderr))
}

// CancelCli interrupts a command: the first time it stops gracefully, the second time at once. A cancel
// may arrive before its command. Returns 1 if the command is running, else 0.
//
//export CancelCli
func CancelCli(name *C.char) C.int {
	text := C.GoString(name)
	interrupts.Lock()
	defer interrupts.Unlock()
	if currentChannel == nil || currentName != text {
		early[text]++
		return 0
	}
	interrupt()
	return 1
}

func openOutput(descriptor C.int64_t, name string) *os.File {
	syscall.CloseOnExec(int(descriptor)) // No provider may hold it open.
	return os.NewFile(uintptr(descriptor), name)
}

func setCurrent(name string, channel chan struct{}) {
	interrupts.Lock()
	defer interrupts.Unlock()
	currentName, currentChannel = name, channel
	for range early[name] {
		interrupt()
	}
	delete(early, name)
}

func interrupt() {
	select {
	case currentChannel <- struct{}{}:
	default:
	}
}

// makeShutdownCh replaces OpenTofu's function of this name, which listens to the signals of the process.
func makeShutdownCh() <-chan struct{} {
	interrupts.Lock()
	defer interrupts.Unlock()
	return currentChannel
}

// run calls OpenTofu's main function. A panic in it ends the process with OpenTofu's exit code 11.
func run(args []string, stdout, stderr *os.File) int {
	if folder, err := os.Open("."); err == nil {
		defer folder.Close()
		defer folder.Chdir() // -chdir changed it for the process.
	}
	savedArgs, savedStdout, savedStderr := os.Args, os.Stdout, os.Stderr
	defer func() { os.Args, os.Stdout, os.Stderr = savedArgs, savedStdout, savedStderr }()
	os.Args, os.Stdout, os.Stderr = args, stdout, stderr
	defer reset()
	return realMain()
}

// reset clears what a command leaves in package variables. OpenTofu has stopped its providers by now.
func reset() {
	commands = nil // Filled only if nil.
	ociRepos = nil // Holds credentials.
	managedClients = nil
	atomic.StoreUint32(&plugin.Killed, 0)
	if provider, ok := otel.GetTracerProvider().(interface{ Shutdown(context.Context) error }); ok {
		_ = provider.Shutdown(context.Background())
	}
}
