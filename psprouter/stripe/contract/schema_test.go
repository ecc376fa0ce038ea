package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stripe/stripe-mock/embedded"
)

// document is Stripe's OpenAPI document, readable as JSON Schema.
type document struct {
	tree     map[string]any
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

const documentURL = "stripe.json"

// load reads the document once per test binary: it has eight megabytes.
var load = sync.OnceValues(func() (*document, error) {
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(embedded.OpenAPISpec))
	if err != nil {
		return nil, err
	}
	tree = asJSONSchema(tree)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft4) // OpenAPI 3.0 is its dialect
	if err := c.AddResource(documentURL, tree); err != nil {
		return nil, err
	}
	return &document{tree: tree.(map[string]any), compiler: c, compiled: map[string]*jsonschema.Schema{}}, nil
})

func stripeDocument(t *testing.T) *document {
	t.Helper()
	d, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// asJSONSchema rewrites what OpenAPI 3.0 has of its own: nullable becomes a type. It also closes objects: a field that Stripe does
// not know is as wrong as one that is missing.
func asJSONSchema(node any) any {
	switch n := node.(type) {
	case []any:
		for i := range n {
			n[i] = asJSONSchema(n[i])
		}
	case map[string]any:
		for name := range n {
			n[name] = asJSONSchema(n[name])
		}
		if _, open := n["additionalProperties"]; n["type"] == "object" && n["properties"] != nil && !open {
			n["additionalProperties"] = false
		}
		if n["nullable"] == true {
			delete(n, "nullable")
			return map[string]any{"anyOf": []any{n, map[string]any{"type": "null"}}}
		}
	}
	return node
}

// answerSchema is where the document describes an answer.
func (d *document) answerSchema(method, path string, status int) (string, error) {
	for pattern, operations := range d.tree["paths"].(map[string]any) {
		if strings.Count(pattern, "/") != strings.Count(path, "/") || !matches(pattern, path) {
			continue
		}
		operation, ok := operations.(map[string]any)[strings.ToLower(method)]
		if !ok {
			continue
		}
		responses := operation.(map[string]any)["responses"].(map[string]any)
		which := "default"
		if _, known := responses[fmt.Sprint(status)]; known {
			which = fmt.Sprint(status)
		}
		escaped := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(pattern)
		return fmt.Sprintf("#/paths/%s/%s/responses/%s/content/application~1json/schema", escaped, strings.ToLower(method), which), nil
	}
	return "", fmt.Errorf("Stripe has no %s %s", method, path)
}

// matches compares a path with a pattern; fixed words win over parameters, since /search is no ID.
func matches(pattern, path string) bool {
	if pattern == path {
		return true
	}
	if strings.HasSuffix(path, "/search") {
		return false
	}
	ok, _ := regexp.MatchString("^"+regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(pattern, "[^/]+")+"$", path)
	return ok
}

// judge validates a body by the schema at a JSON pointer.
func (d *document) judge(pointer string, body []byte) error {
	schema := d.compiled[pointer]
	if schema == nil {
		var err error
		if schema, err = d.compiler.Compile(documentURL + pointer); err != nil {
			return err
		}
		d.compiled[pointer] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// The judge must be able to say no.
func TestJudgeRefuses(t *testing.T) {
	d := stripeDocument(t)
	pointer, err := d.answerSchema(http.MethodGet, "/v1/refunds/re_1", 200)
	if err != nil {
		t.Fatal(err)
	}
	good := map[string]any{"id": "re_1", "object": "refund", "amount": 5, "currency": "eur", "created": 1, "balance_transaction": nil, "charge": nil,
		"metadata": nil, "payment_intent": nil, "reason": nil, "receipt_number": nil, "source_transfer_reversal": nil, "status": "succeeded", "transfer_reversal": nil}
	check := func(change func(map[string]any), valid bool) {
		t.Helper()
		body, _ := json.Marshal(good)
		var copied map[string]any
		_ = json.Unmarshal(body, &copied)
		change(copied)
		body, _ = json.Marshal(copied)
		if err := d.judge(pointer, body); (err == nil) != valid {
			t.Errorf("%s: %v", body, err)
		}
	}
	check(func(map[string]any) {}, true)
	check(func(m map[string]any) { delete(m, "amount") }, false)
	check(func(m map[string]any) { m["amount"] = "5" }, false)
	check(func(m map[string]any) { m["object"] = "refunds" }, false)
	check(func(m map[string]any) { m["invented"] = 1 }, false)
	check(func(m map[string]any) { m["currency"] = nil }, false)
	if _, err := d.answerSchema(http.MethodGet, "/v1/payments", 200); err == nil {
		t.Error("an address that does not exist is known")
	}
}
