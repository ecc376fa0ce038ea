package localdb

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// dieWithParentWorks tells the tests what to expect.
const dieWithParentWorks = true

// dieWithParent has the kernel signal the child when the thread that started it ends. That is why run keeps its
// thread for as long as the server lives (golang/go#27505).
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) {
	attr.Pdeathsig = signal
}

// commandLine is a process's arguments, joined by blanks; "" if there is no such process.
func commandLine(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
}
