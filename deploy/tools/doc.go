// Package tools pins the versions of the tools that the Makefile runs: staticcheck and benchstat. It is a module of its
// own, so that their dependencies stay out of paygrid's go.mod:
//
//	go tool -modfile=deploy/tools/go.mod staticcheck ./...
package tools
