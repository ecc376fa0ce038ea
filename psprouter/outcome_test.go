package psprouter

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The zero Outcome must be harmless: whoever forgets to classify has an unknown, never a failure or a success.
func TestZeroOutcomeIsUnknown(t *testing.T) {
	var o Outcome
	if o.Class() != Unknown || o.Class().String() != "UNKNOWN" || Class(200).String() != "UNKNOWN" {
		t.Fatal("the zero outcome is not Unknown")
	}
	for class, out := range map[Class]Outcome{
		Approved: ApprovedAs("r"), Accepted: AcceptedAs("r"), Declined: DeclinedWith("c", "w"),
		ActionRequired: RedirectTo("r", "u"), NotSent: NotSentBecause("w"), Unknown: Contradiction("w"),
	} {
		if out.Class() != class {
			t.Errorf("%v is classed %v", class, out.Class())
		}
	}
	if out := RejectedWith("c", "w"); out.Class() != NotSent || !out.Rejected {
		t.Errorf("a rejection is %+v", out)
	}
}

// Only NotSent moves: every class, rejected or not, is walked to the other PSP.
func TestOnlyNotSentMoves(t *testing.T) {
	seen := map[Class]bool{}
	for _, c := range outcomes() {
		for _, rejected := range []bool{c.out.Rejected, true} { // a mark that contradicts the class must not open a way either
			out := c.out
			out.Rejected = rejected
			seen[out.Class()] = true
			r := NewRouter(account{"stripe", 1}, account{"adyen", 1})
			choice := mustChoose(t, r, both(100))
			choice.Done(out)
			proof, proven := out.NotSent()
			want := c.moves && !rejected
			if proven != want || (proof != NotSentProof{}) != want {
				t.Errorf("%s, rejected=%v: proof %v %+v, want %v", c.name, rejected, proven, proof, want)
			}
			next, moved := r.Elsewhere(choice, proof, both(100))
			if moved != want {
				t.Errorf("%s, rejected=%v: moved = %v, want %v", c.name, rejected, moved, want)
			}
			if moved && next.PSP.Name() != "adyen" {
				t.Errorf("%s moved to %s", c.name, next.PSP.Name())
			}
		}
	}
	if len(seen) != len(classNames) {
		t.Errorf("only %d of %d classes were walked", len(seen), len(classNames))
	}
}

// A genuine proof of one call must not move another, nor a call whose end nobody told.
func TestProofOfAnotherCallIsRefused(t *testing.T) {
	proof, _ := NotSentBecause("refused").NotSent()
	for _, c := range outcomes() {
		r := NewRouter(account{"stripe", 1}, account{"adyen", 1})
		choice := mustChoose(t, r, both(100))
		if _, moved := r.Elsewhere(choice, proof, both(100)); moved {
			t.Fatal("moved before the call ended")
		}
		choice.Done(c.out)
		choice.Done(NotSentBecause("a second word must not count"))
		if _, moved := r.Elsewhere(choice, proof, both(100)); moved != c.moves {
			t.Errorf("%s: moved = %v with the proof of another call", c.name, moved)
		}
		if _, moved := r.Elsewhere(choice, NotSentProof{}, both(100)); moved {
			t.Errorf("%s: moved with the zero proof", c.name)
		}
		if _, moved := r.Elsewhere(Choice{PSP: choice.PSP}, proof, both(100)); moved {
			t.Errorf("%s: moved a choice that no router made", c.name)
		}
	}
}

// The types hold it: outside this package a NotSentProof comes from Outcome.NotSent or is zero, an Outcome's class comes
// from a constructor or is Unknown, and a Choice's permission comes from a Router.
func TestProofCannotBeMadeElsewhere(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[NotSentProof](), reflect.TypeFor[permission]()} {
		for n := range typ.NumField() {
			if typ.Field(n).IsExported() {
				t.Errorf("%s.%s can be set by anybody", typ, typ.Field(n).Name)
			}
		}
	}
	for _, name := range []string{"class", "ours"} {
		if _, ok := reflect.TypeFor[Outcome]().FieldByName(name); !ok {
			t.Errorf("Outcome.%s has become public or is gone", name)
		}
	}
	if got, want := returning(t, "NotSentProof"), []string{"NotSent"}; !slices.Equal(got, want) {
		t.Errorf("proofs are made by %v, want %v alone", got, want)
	}
	if got, want := returning(t, "Choice"), []string{"Choose", "Elsewhere"}; !slices.Equal(got, want) {
		t.Errorf("choices are made by %v, want %v alone", got, want)
	}
}

// returning lists the package's exported functions and methods that return a typ.
func returning(t *testing.T, typ string) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || f.Type.Results == nil {
				continue
			}
			for _, result := range f.Type.Results.List {
				if name, ok := result.Type.(*ast.Ident); ok && name.Name == typ {
					names = append(names, f.Name.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func TestJudge(t *testing.T) {
	for _, c := range outcomes() {
		if got := judge(c.out); got != c.judged {
			t.Errorf("%s is judged %d, want %d", c.name, got, c.judged)
		}
	}
}
