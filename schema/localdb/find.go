package localdb

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldestMajor is the first PostgreSQL that the schema is written for.
const oldestMajor = 15

// binEnv names a folder with postgres and initdb that is used whatever else is installed.
const binEnv = "PAYGRID_POSTGRES_BIN"

// installation is one PostgreSQL on this machine.
type installation struct {
	bin   string // folder of postgres and initdb
	major int
}

// search is where to look; a value, so that a test can look elsewhere.
type search struct {
	override string   // the only folder to look into, unless ""
	path     string   // like PATH
	globs    []string // folders that distributions keep off PATH
}

func systemSearch() search {
	return search{
		override: os.Getenv(binEnv),
		path:     os.Getenv("PATH"),
		globs: []string{
			"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
			"/usr/pgsql-*/bin",          // PostgreSQL's packages for Red Hat and its kin
			"/usr/lib/postgresql*/bin",  // SUSE, Alpine
			"/usr/local/pgsql/bin",      // built from source
			"/opt/homebrew/opt/postgresql*/bin",
			"/usr/local/opt/postgresql*/bin",
			"/Applications/Postgres.app/Contents/Versions/*/bin",
		},
	}
}

// find returns the usable installations, newest first, at least one.
func (s search) find() ([]installation, error) {
	var usable []installation
	missing := &NotFoundError{Override: s.override, Searched: s.folders()}
	for _, dir := range missing.Searched {
		major, ok := probe(dir)
		switch {
		case !ok:
		case major < oldestMajor:
			missing.TooOld = append(missing.TooOld, fmt.Sprintf("%s (version %d)", dir, major))
		default:
			usable = append(usable, installation{bin: dir, major: major})
		}
	}
	if len(usable) == 0 {
		return nil, missing
	}
	slices.SortStableFunc(usable, func(a, b installation) int { return cmp.Compare(b.major, a.major) })
	return usable, nil
}

// folders lists what to probe, each once.
func (s search) folders() []string {
	if s.override != "" {
		return []string{s.override}
	}
	var dirs []string
	for _, dir := range filepath.SplitList(s.path) {
		// The link's target: initdb looks for its own files beside the real one.
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, glob := range s.globs {
		found, _ := filepath.Glob(glob) // the only error is a malformed pattern
		dirs = append(dirs, found...)
	}
	var once []string
	for _, dir := range dirs {
		if !slices.Contains(once, dir) {
			once = append(once, dir)
		}
	}
	return once
}

// probe asks the server for its version; ok is false where there is no working pair of postgres and initdb.
func probe(dir string) (major int, ok bool) {
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return 0, false
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, false
	}
	return parseMajor(string(out))
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// parseMajor reads "postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)" and "… 18beta1".
func parseMajor(version string) (int, bool) {
	match := versionPattern.FindStringSubmatch(version)
	if match == nil {
		return 0, false
	}
	major, err := strconv.Atoi(match[1])
	return major, err == nil
}

// pick returns the newest installation, or for a folder with data in it the one that made it:
// PostgreSQL opens only data of its own major version.
func pick(found []installation, dataDir string) (installation, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, "PG_VERSION"))
	if os.IsNotExist(err) {
		return found[0], nil
	}
	if err != nil {
		return installation{}, fmt.Errorf("localdb: read the version of %s: %w", dataDir, err)
	}
	want := strings.TrimSpace(string(text))
	for _, each := range found {
		if strconv.Itoa(each.major) == want {
			return each, nil
		}
	}
	return installation{}, &VersionError{DataDir: dataDir, Made: want, Newest: found[0].major}
}
