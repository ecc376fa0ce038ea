//go:build !linux

package localdb

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// dieWithParentWorks tells the tests what to expect.
const dieWithParentWorks = false

// dieWithParent does nothing: only Linux can. The next Start on the same Dir ends what was left.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// commandLine is a process's arguments, joined by blanks; "" if there is no such process.
func commandLine(pid int) string {
	text, err := exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return string(text)
}

// temporaryRoot is where temporary folders go.
func temporaryRoot(bool) string { return os.TempDir() }
