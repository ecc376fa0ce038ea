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

// memoryEnough is the room that a temporary engine gets at least; test suites use a tenth of it.
const memoryEnough = 4 << 30

// temporaryRoot is where temporary folders go. Data that no crash must survive is best kept in memory: a start takes
// half the time there, and a copy of a template a sixth. TMPDIR, if set, is obeyed.
func temporaryRoot(durable bool) string {
	const shm = "/dev/shm"
	var fs syscall.Statfs_t
	if durable || os.Getenv("TMPDIR") != "" || syscall.Statfs(shm, &fs) != nil {
		return os.TempDir()
	}
	if fs.Bavail*uint64(fs.Bsize) < memoryEnough {
		return os.TempDir()
	}
	return shm
}
