// Package paygrid is the root of the module and holds no code: README.md says what paygrid is, tidy_test.go holds the
// rules that every folder keeps.
package paygrid
