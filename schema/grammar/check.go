package grammar

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser/statements"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/types"
)

// Violation is one statement that would not run, or not alike, on both engines.
type Violation struct {
	Rule   string // what is not allowed, in a few words
	Remedy string
	SQL    string // the statement, or the text that does not parse
}

func (v *Violation) Error() string { return fmt.Sprintf("%s: %s\n%s", v.Rule, v.Remedy, v.SQL) }

// Check parses text, any number of statements, and returns what is wrong with it.
func Check(text string) []*Violation {
	parsed, err := parser.Parse(text)
	if err != nil {
		return []*Violation{{Rule: "syntax", Remedy: "CockroachDB's grammar refuses it: " + err.Error(), SQL: text}}
	}
	var found []*Violation
	for _, statement := range parsed {
		found = append(found, checkStatement(statement)...)
	}
	return found
}

func checkStatement(statement statements.Statement[tree.Statement]) []*Violation {
	c := &checker{sql: statement.SQL, modified: map[string]int{}}
	walk(reflect.ValueOf(statement.AST), map[uintptr]bool{}, c.node)
	for table, times := range c.modified {
		if times > 1 {
			c.report("table modified twice", "CockroachDB refuses to modify "+table+" twice in one statement: use one CTE for it")
		}
	}
	c.integers(statement)
	return c.found
}

// checker gathers what is wrong with one statement.
type checker struct {
	sql      string
	modified map[string]int // table -> how many parts of the statement modify it
	found    []*Violation
}

func (c *checker) report(rule, remedy string) {
	c.found = append(c.found, &Violation{Rule: rule, Remedy: remedy, SQL: c.sql})
}

// node looks at one node of the tree.
func (c *checker) node(node any) {
	switch n := node.(type) {
	case *tree.Insert:
		c.modified[tableName(n.Table)]++
	case *tree.Update:
		c.modified[tableName(n.Table)]++
	case *tree.Delete:
		c.modified[tableName(n.Table)]++
	case *tree.FuncExpr:
		c.call(n)
	case *tree.ComparisonExpr:
		if n.Operator.Symbol.HasSubOperator() { // = ANY ($1)
			c.array(n.Right)
		}
	case tree.SelectExpr:
		c.star(n.Expr)
	case *tree.ColumnTableDef:
		c.column(n)
	case *tree.CreateSequence:
		c.report("sequence", "a sequence is a hot spot, and not transactional: use a counter row, as buckets.seq")
	}
}

func tableName(table tree.TableExpr) string {
	if aliased, ok := table.(*tree.AliasedTableExpr); ok {
		table = aliased.Expr
	}
	return strings.TrimPrefix(tree.AsString(table), "public.")
}

// call refuses functions that CockroachDB lacks or only pretends to have, and array parameters without a type.
func (c *checker) call(call *tree.FuncExpr) {
	name := strings.ToLower(call.Func.String())
	name = strings.TrimPrefix(name, "pg_catalog.")
	switch {
	case strings.HasPrefix(name, "pg_advisory_"), strings.HasPrefix(name, "pg_try_advisory_"):
		c.report("advisory lock", "on CockroachDB "+name+" locks nothing: use a lease row")
	case name == "pg_notify":
		c.report("notification", "CockroachDB has none: poll by a cursor")
	case name == "nextval", name == "setval", name == "currval", name == "lastval":
		c.report("sequence", name+" is a hot spot, and not transactional: use a counter row, as buckets.seq")
	case name == "unnest":
		for _, argument := range call.Exprs {
			c.array(argument)
		}
	}
}

// array wants the form $1::TEXT[]: CockroachDB infers other types for bare parameters than PostgreSQL does.
func (c *checker) array(expr tree.Expr) {
	for {
		inner, ok := expr.(*tree.ParenExpr)
		if !ok {
			break
		}
		expr = inner.Expr
	}
	if cast, ok := expr.(*tree.CastExpr); ok {
		if _, ok := cast.Expr.(*tree.Placeholder); ok && !isArray(cast.Type) {
			c.report("array parameter", "cast "+tree.AsString(cast.Expr)+" to an array type, as in $1::TEXT[]")
		}
		return
	}
	if parameter, ok := expr.(*tree.Placeholder); ok {
		c.report("array parameter", "cast "+tree.AsString(parameter)+" to its array type, as in $1::TEXT[]")
	}
}

func isArray(reference tree.ResolvableTypeReference) bool {
	t, ok := reference.(*types.T)
	return ok && t.Family() == types.ArrayFamily
}

// star refuses SELECT * and RETURNING *, but not count(*).
func (c *checker) star(expr tree.Expr) {
	_, all := expr.(tree.UnqualifiedStar)
	_, allOf := expr.(*tree.AllColumnsSelector)
	name, ok := expr.(*tree.UnresolvedName)
	if all || allOf || ok && name.Star {
		c.report("SELECT *", "name the columns: the next migration changes what * means")
	}
}

func (c *checker) column(column *tree.ColumnTableDef) {
	if column.IsSerial {
		c.report("SERIAL", "it is unique_rowid() on CockroachDB and a sequence on PostgreSQL: let the program make IDs")
	}
	if column.GeneratedIdentity.IsGeneratedAsIdentity {
		c.report("sequence", "an IDENTITY column is a sequence: let the program make IDs")
	}
}

// integers finds INT and INTEGER without a width, 8 bytes on CockroachDB and 4 on PostgreSQL: what the statement says
// then depends on the default that it is parsed with.
func (c *checker) integers(statement statements.Statement[tree.Statement]) {
	narrow, err := parser.ParseWithInt(statement.SQL, types.Int4)
	if err != nil || len(narrow) != 1 {
		return // it parsed before; there is nothing to compare
	}
	if tree.AsString(narrow[0].AST) != tree.AsString(statement.AST) {
		c.report("INT without a width", "write INT4 or INT8: INT is 8 bytes on CockroachDB and 4 on PostgreSQL")
	}
}

// walk calls visit for every node below v that the checks know how to look at: pointers to structs, and structs. The
// parser's own visitor leaves out statements inside of CTEs, which is what matters here.
func walk(v reflect.Value, seen map[uintptr]bool, visit func(any)) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), seen, visit)
		}
	case reflect.Pointer:
		if v.IsNil() || v.Type() == reflect.TypeFor[*types.T]() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		visit(v.Interface())
		walk(v.Elem(), seen, visit)
	case reflect.Struct:
		visit(v.Interface())
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i), seen, visit)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), seen, visit)
		}
	}
}
