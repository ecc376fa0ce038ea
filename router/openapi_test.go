package router

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"paygrid/ledger"
	"paygrid/payment"
)

func document(t *testing.T) *v3.Document {
	t.Helper()
	doc, err := libopenapi.NewDocument(openAPIDocument)
	if err != nil {
		t.Fatal(err)
	}
	model, err := doc.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	return &model.Model
}

func TestOpenAPIIsServedAndValid(t *testing.T) {
	a := newAPI(t)
	if res := a.get("/openapi.yaml", header("Authorization", "")); res.StatusCode != 200 || res.body != string(openAPIDocument) {
		t.Errorf("%d", res.StatusCode)
	}
	if ok, errs := a.contract.ValidateDocument(); !ok {
		t.Errorf("%v", errs[0])
	}
}

// The document and gin's table must name the same routes.
func TestOpenAPIRoutes(t *testing.T) {
	var served, documented []string
	for _, route := range newAPI(t).router.engine.Routes() {
		served = append(served, route.Method+" "+strings.NewReplacer(":id", "{id}", ":psp", "{psp}").Replace(route.Path))
	}
	for path, item := range document(t).Paths.PathItems.FromOldest() {
		for method := range item.GetOperations().FromOldest() {
			documented = append(documented, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(documented)
	if !slices.Equal(served, documented) {
		t.Errorf("served\n%s\ndocumented\n%s", strings.Join(served, "\n"), strings.Join(documented, "\n"))
	}
}

// The document's codes are those of the table, and the table has every code that Go declares.
func TestOpenAPICodes(t *testing.T) {
	var documented []string
	for _, node := range document(t).Components.Schemas.GetOrZero("ErrorCode").Schema().Enum {
		documented = append(documented, node.Value)
	}
	var ruled []string
	for code := range rulings {
		ruled = append(ruled, string(code))
	}
	slices.Sort(ruled)
	if !slices.Equal(documented, ruled) {
		t.Errorf("documented %v\nruled      %v", documented, ruled)
	}
	declared := append(constants(t, "errors.go", "Code"), constants(t, "../payment/errors.go", "Code")...)
	slices.Sort(declared)
	if !slices.Equal(declared, ruled) {
		t.Errorf("declared %v\nruled    %v", declared, ruled)
	}
	kinds := slices.Sorted(maps.Keys(kindStatus))
	if declared := constants(t, "../payment/answer.go", "Kind"); len(declared) != len(kinds) {
		t.Errorf("kinds declared %v, ruled %v", declared, kinds)
	}
	for code, r := range rulings {
		if r.status < 400 || r.title == "" || (r.status == http.StatusServiceUnavailable) != (r.retry > 0) && code != payment.CodeBusy {
			t.Errorf("%s: %+v", code, r)
		}
	}
}

// constants reads the string constants of a type from a Go file.
func constants(t *testing.T, file, typeName string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !isNamed(spec.Type, typeName) {
			return true
		}
		if value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err == nil {
			out = append(out, value)
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("%s declares no %s", file, typeName)
	}
	return out
}

func isNamed(e ast.Expr, name string) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == name
	case *ast.SelectorExpr:
		return e.Sel.Name == name
	}
	return false
}

// Each example satisfies the schema beside it.
func TestOpenAPIExamples(t *testing.T) {
	checked := 0
	check := func(where string, content *v3.MediaType) {
		for name, example := range content.Examples.FromOldest() {
			var value any
			if err := example.Value.Decode(&value); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			wantSchema(t, where+" "+name, content.Schema, text)
			checked++
		}
	}
	for path, item := range document(t).Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			if op.RequestBody != nil {
				for _, content := range op.RequestBody.Content.FromOldest() {
					check(method+" "+path, content)
				}
			}
			for status, res := range op.Responses.Codes.FromOldest() {
				for _, content := range res.Content.FromOldest() {
					check(method+" "+path+" "+status, content)
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d examples found", checked)
	}
}

func wantSchema(t *testing.T, where string, schema *base.SchemaProxy, text []byte) {
	t.Helper()
	if ok, errs := schema_validation.NewSchemaValidator().ValidateSchemaString(schema.Schema(), string(text)); !ok {
		t.Errorf("%s: %v %v\n%s", where, errs[0], errs[0].SchemaValidationErrors, text)
	}
}

// Each example of a new payment is one that the decoder takes.
func TestOpenAPIRequestExamplesDecode(t *testing.T) {
	op := document(t).Paths.PathItems.GetOrZero("/v1/payments").Post
	for name, example := range op.RequestBody.Content.GetOrZero("application/json").Examples.FromOldest() {
		var value any
		if err := example.Value.Decode(&value); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeAuthorize(text, "stripe"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The limits that the document states are the code's.
func TestOpenAPILimits(t *testing.T) {
	schemas := document(t).Components.Schemas
	minor := schemas.GetOrZero("Money").Schema().Properties.GetOrZero("minor").Schema()
	if int64(*minor.Maximum) != ledger.MaxAmountMinor {
		t.Errorf("Money.minor: maximum %v, want %d", *minor.Maximum, ledger.MaxAmountMinor)
	}
	if got := *schemas.GetOrZero("Token").Schema().MaxLength; got != tokenBytesMax {
		t.Errorf("Token: %d", got)
	}
	if got := *document(t).Components.Parameters.GetOrZero("IdempotencyKey").Schema.Schema().MaxLength; got != keyBytesMax {
		t.Errorf("IdempotencyKey: %d", got)
	}
	details := schemas.GetOrZero("Confirmation").Schema().Properties.GetOrZero("details").Schema()
	if *details.MaxProperties != detailsMax {
		t.Errorf("Confirmation.details: %d", *details.MaxProperties)
	}
	// Every member that the decoder knows is documented, and the other way round.
	for name := range schemas.GetOrZero("NewPayment").Schema().Properties.FromOldest() {
		body := `{"` + name + `":[[`
		if _, err := decodeAuthorize([]byte(body), "stripe"); strings.Contains(err.Error(), string(CodeUnknownMember)) {
			t.Errorf("%s is documented and unknown", name)
		}
	}
}

// A planted fault: the checks of the other tests rest on the validator seeing this.
func TestContractCheckSeesFaults(t *testing.T) {
	schema := document(t).Components.Schemas.GetOrZero("Payment")
	view, err := json.Marshal(aView())
	if err != nil {
		t.Fatal(err)
	}
	validator := schema_validation.NewSchemaValidator()
	for name, fault := range map[string]string{
		"an amount as a fraction": strings.Replace(string(view), `"minor":10000`, `"minor":100.5`, 1),
		"an amount as text":       strings.Replace(string(view), `"captured":0`, `"captured":"0"`, 1),
		"no id":                   strings.Replace(string(view), `"id"`, `"key"`, 1),
	} {
		if ok, _ := validator.ValidateSchemaString(schema.Schema(), fault); ok || fault == string(view) {
			t.Errorf("%s: passes\n%s", name, fault)
		}
	}
}
