package paygrid

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// source is one file, .go or .sql.
type source struct {
	path string // relative to the root, with slashes
	text string
	fset *token.FileSet
	tree *ast.File // nil for .sql
}

func parse(name, text string) (*source, error) {
	s := &source{path: name, text: text, fset: token.NewFileSet()}
	if path.Ext(name) != ".go" {
		return s, nil
	}
	var err error
	s.tree, err = parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

func (s *source) dir() string { return path.Dir(s.path) }

func (s *source) program() bool { return strings.HasPrefix(s.path, "cmd/") }

func (s *source) test() bool {
	return strings.HasSuffix(s.path, "_test.go") || slices.Contains(forTests, s.dir())
}

// in says whether the file belongs to one of the packages or to a package below one.
func (s *source) in(packages ...string) bool {
	return slices.ContainsFunc(packages, func(p string) bool { return s.dir() == p || strings.HasPrefix(s.dir(), p+"/") })
}

// hit is one violation: a line of the file, and what stands there.
type hit struct {
	line int
	what string
}

func (s *source) at(node ast.Node, what string) hit {
	return hit{s.fset.Position(node.Pos()).Line, what}
}

// each gathers what find says of each node.
func each[N ast.Node](s *source, find func(N) string) []hit {
	var hits []hit
	if s.tree == nil {
		return nil
	}
	ast.Inspect(s.tree, func(node ast.Node) bool {
		if n, ok := node.(N); ok {
			if what := find(n); what != "" {
				hits = append(hits, s.at(n, what))
			}
		}
		return true
	})
	return hits
}

// imports lists what the file imports, as written.
func imports(s *source, find func(imported string) string) []hit {
	return each(s, func(n *ast.ImportSpec) string {
		imported, err := strconv.Unquote(n.Path.Value)
		if err != nil {
			return err.Error()
		}
		return find(imported)
	})
}

func findImports(s *source) []hit {
	table, known := mayImport[s.dir()]
	if s.tree != nil && !known && !s.program() && !s.test() {
		return []hit{{1, s.dir() + " is not in the import table"}}
	}
	return imports(s, func(imported string) string {
		target, ours := strings.CutPrefix(imported, "paygrid/")
		switch {
		case !ours || slices.Contains(table, target):
			return ""
		case (s.program() || s.test()) && !strings.HasPrefix(target, "cmd/"):
			return ""
		}
		return s.dir() + " imports " + target
	})
}

func findPgx(s *source) []hit {
	if s.in("shard", "schema") || s.program() || s.test() {
		return nil
	}
	return imports(s, func(imported string) string {
		if strings.HasPrefix(imported, "github.com/jackc/") {
			return imported
		}
		return ""
	})
}

// uses finds package.name for each of the names.
func uses(s *source, pkg string, names ...string) []hit {
	return each(s, func(n *ast.SelectorExpr) string {
		if x, ok := n.X.(*ast.Ident); ok && x.Name == pkg && slices.Contains(names, n.Sel.Name) {
			return pkg + "." + n.Sel.Name
		}
		return ""
	})
}

func findClock(s *source) []hit {
	if s.program() || s.test() {
		return nil
	}
	return uses(s, "time", "Now", "Since", "Until")
}

func findSleeps(s *source) []hit { return uses(s, "time", "Sleep") }

func findFloats(s *source) []hit {
	if !s.in("ledger", "shard", "payment", "psprouter") || s.test() {
		return nil
	}
	metric := map[ast.Node]bool{} // the word float64 in m.Observe(float64(n))
	each(s, func(n *ast.CallExpr) string {
		if method, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Observe", "Add", "Set"}, method.Sel.Name) {
			for _, argument := range n.Args {
				if conversion, ok := argument.(*ast.CallExpr); ok {
					metric[conversion.Fun] = true
				}
			}
		}
		return ""
	})
	named := each(s, func(n *ast.Ident) string {
		if (n.Name == "float64" || n.Name == "float32") && !metric[n] {
			return n.Name
		}
		return ""
	})
	return append(named, each(s, func(n *ast.BasicLit) string {
		if n.Kind == token.FLOAT {
			return n.Value
		}
		return ""
	})...)
}

// literals lists what find says of each string literal, and of each line of a .sql file but its comments if code is true.
func literals(s *source, code bool, find func(string) string) []hit {
	if s.tree != nil {
		return each(s, func(n *ast.BasicLit) string {
			text, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || err != nil {
				return ""
			}
			return find(text)
		})
	}
	var hits []hit
	for i, line := range strings.Split(s.text, "\n") {
		if code {
			line, _, _ = strings.Cut(line, "--")
		}
		if what := find(line); what != "" {
			hits = append(hits, hit{i + 1, what})
		}
	}
	return hits
}

var starPattern = regexp.MustCompile(`(?i)\bSELECT\s+((ALL|DISTINCT)\s+)?(\w+\.)?\*`)

func findStars(s *source) []hit {
	return literals(s, true, func(text string) string { return starPattern.FindString(text) })
}

var (
	sqlPattern      = regexp.MustCompile(`^\s*(--.*\n\s*)*(WITH|SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|GRANT|REVOKE)\s`)
	nonASCIIPattern = regexp.MustCompile(`[^\x00-\x7f…]`) // … is prose: in SQL it would be a syntax error
)

func findNonASCII(s *source) []hit {
	return literals(s, false, func(text string) string {
		if s.tree != nil && !sqlPattern.MatchString(text) {
			return ""
		}
		if found := nonASCIIPattern.FindString(text); found != "" {
			return fmt.Sprintf("%+q", found)
		}
		return ""
	})
}

func findInit(s *source) []hit {
	return each(s, func(n *ast.FuncDecl) string {
		if n.Recv == nil && n.Name.Name == "init" {
			return "func init"
		}
		return ""
	})
}

func findNames(s *source) []hit {
	words := strings.Split(s.dir(), "/")
	if s.tree != nil {
		words = append(words, strings.TrimSuffix(s.tree.Name.Name, "_test"))
	}
	for _, banned := range []string{"util", "utils", "common", "helpers", "helper", "internal", "pkg"} {
		if slices.Contains(words, banned) {
			return []hit{{1, banned}}
		}
	}
	return nil
}

func findTopLevel(s *source) []hit {
	top, _, below := strings.Cut(s.path, "/")
	if !below || slices.Contains(topLevel, top) {
		return nil
	}
	return []hit{{1, top}}
}

func findExecuteTx(s *source) []hit {
	return each(s, func(n *ast.Ident) string {
		if n.Name == "ExecuteTx" {
			return n.Name
		}
		return ""
	})
}

func findLongFunctions(s *source) []hit {
	return each(s, func(n *ast.FuncDecl) string {
		lines := s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
		if lines <= maxFunctionLines {
			return ""
		}
		return fmt.Sprintf("%s has %d lines", n.Name.Name, lines)
	})
}

func findLongLines(s *source) []hit {
	limit := maxLineRunes
	if s.test() {
		limit = maxTestLineRunes
	}
	var hits []hit
	for i, line := range strings.Split(s.text, "\n") {
		if length := utf8.RuneCountInString(line); length > limit {
			hits = append(hits, hit{i + 1, fmt.Sprintf("%d characters", length)})
		}
	}
	return hits
}

func findPanics(s *source) []hit {
	if s.test() {
		return nil
	}
	return each(s, func(n *ast.CallExpr) string {
		if called, ok := n.Fun.(*ast.Ident); !ok || called.Name != "panic" || len(n.Args) != 1 {
			return ""
		}
		if argument, ok := n.Args[0].(*ast.SelectorExpr); ok && argument.Sel.Name == "ErrAbortHandler" {
			return ""
		}
		return "panic"
	})
}

// undocumented lists the packages that have no package comment in any file but tests.
func undocumented(sources []*source) []string {
	documented := map[string]bool{}
	for _, s := range sources {
		if s.tree != nil && !strings.HasSuffix(s.path, "_test.go") {
			documented[s.dir()] = documented[s.dir()] || s.tree.Doc.Text() != ""
		}
	}
	var missing []string
	for dir, ok := range documented {
		if !ok {
			missing = append(missing, dir)
		}
	}
	slices.Sort(missing)
	return missing
}
