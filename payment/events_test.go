package payment

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/jsonschema/v6"

	"paygrid/shard"
)

// release writes what is promised to consumers anew; the pages in docs/events are written by -update.
var release = flag.Bool("release", false, "promise consumers what the event schemas say now (docs/events/released.json)")

const (
	eventsDir    = "../docs/events"
	releasedFile = eventsDir + "/released.json"
)

// schema is a JSON Schema (2020-12), as far as events need one.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Minimum     *int64             `json:"minimum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
}

// schemaOf writes a Go type as a schema: what is not omitted when empty is required. Consumers must let further properties pass,
// since later versions may add some.
func schemaOf(t *testing.T, typ reflect.Type) *schema {
	t.Helper()
	switch typ.Kind() {
	case reflect.Pointer:
		return schemaOf(t, typ.Elem())
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Int64:
		return &schema{Type: "integer", Minimum: new(int64)}
	case reflect.Struct:
		out := &schema{Type: "object", Properties: map[string]*schema{}}
		for n := range typ.NumField() {
			name, options, _ := strings.Cut(typ.Field(n).Tag.Get("json"), ",")
			if name == "" || name == "-" {
				t.Fatalf("%s.%s: an event's field needs a JSON name", typ, typ.Field(n).Name)
			}
			out.Properties[name] = schemaOf(t, typ.Field(n).Type)
			if options != "omitempty" {
				out.Required = append(out.Required, name)
			}
		}
		slices.Sort(out.Required)
		return out
	}
	t.Fatalf("%s: events hold strings, integers and objects alone: amounts are integers", typ)
	return nil
}

// eventSchema is the schema of one type's payload.
func eventSchema(t *testing.T, eventType string) *schema {
	t.Helper()
	s := schemaOf(t, reflect.TypeFor[EventData]())
	s.Schema, s.ID = "https://json-schema.org/draft/2020-12/schema", "urn:paygrid:event:"+eventType
	s.Title, s.Description = eventType, "The payment after the change. Amounts are integers, minor units of amount.currency. Later versions may add properties."
	s.Properties["paymentId"].Pattern = "^pay_[0-9]{4}_[0-9A-Z]{26}$"
	s.Properties["amount"].Properties["currency"].Pattern = "^[A-Z]{3}$"
	if strings.HasPrefix(eventType, "refund.") && eventType != EventRefundReturned {
		s.Required = append(s.Required, "refund")
		slices.Sort(s.Required)
	}
	return s
}

func pageOf(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// TestEventSchemas: docs/events holds one schema per event type, and each is what the code sends.
func TestEventSchemas(t *testing.T) {
	want := map[string]bool{}
	for _, eventType := range EventTypes() {
		name := filepath.Join(eventsDir, eventType+".schema.json")
		want[name] = true
		page := pageOf(t, eventSchema(t, eventType))
		if *update {
			if err := errors.Join(os.MkdirAll(eventsDir, 0o755), os.WriteFile(name, page, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(name); err != nil || !bytes.Equal(have, page) {
			t.Errorf("%s is stale (%v): go generate ./payment", name, err)
		}
	}
	files, err := filepath.Glob(eventsDir + "/*.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !want[name] {
			t.Errorf("%s is of no event: a type that was promised may not go (TestEventSchemasStayCompatible), one that was not goes with its page", name)
		}
	}
}

// released reads what consumers were promised.
func released(t *testing.T) map[string]*schema {
	t.Helper()
	text, err := os.ReadFile(releasedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	out := map[string]*schema{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestEventSchemasStayCompatible: what was promised still holds. New types, properties and guarantees may come.
func TestEventSchemasStayCompatible(t *testing.T) {
	now := map[string]*schema{}
	for _, eventType := range EventTypes() {
		now[eventType] = eventSchema(t, eventType)
	}
	promised := released(t)
	if len(promised) == 0 && !*release {
		t.Fatalf("%s promises nothing", releasedFile)
	}
	for eventType, before := range promised {
		if now[eventType] == nil {
			t.Errorf("%s was promised and is no longer sent", eventType)
			continue
		}
		for _, broken := range breaks(eventType, before, now[eventType]) {
			t.Error(broken)
		}
	}
	if *release && !t.Failed() {
		if err := os.WriteFile(releasedFile, pageOf(t, now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// breaks names what a consumer that relies on before misses in after.
func breaks(at string, before, after *schema) (out []string) {
	if before.Type != after.Type {
		out = append(out, fmt.Sprintf("%s was of type %s and is %s", at, before.Type, after.Type))
	}
	if after.Pattern != before.Pattern && before.Pattern != "" {
		out = append(out, fmt.Sprintf("%s had the pattern %s and has %q", at, before.Pattern, after.Pattern))
	}
	for _, name := range before.Required {
		if !slices.Contains(after.Required, name) {
			out = append(out, fmt.Sprintf("%s.%s was always there and no longer is", at, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		if after.Properties[name] == nil {
			out = append(out, fmt.Sprintf("%s.%s is gone", at, name))
			continue
		}
		out = append(out, breaks(at+"."+name, before.Properties[name], after.Properties[name])...)
	}
	return out
}

// TestIncompatibleSchemasAreFound plants each kind of break, and what is none.
func TestIncompatibleSchemasAreFound(t *testing.T) {
	for _, test := range []struct {
		what   string
		change func(*schema)
		broken bool
	}{
		{"nothing", func(*schema) {}, false},
		{"a new property", func(s *schema) { s.Properties["more"] = &schema{Type: "string"} }, false},
		{"a new guarantee", func(s *schema) { s.Required = append(s.Required, "customerId") }, false},
		{"a property gone", func(s *schema) { delete(s.Properties, "customerId") }, true},
		{"a part's property gone", func(s *schema) { delete(s.Properties["amount"].Properties, "minor") }, true},
		{"another type", func(s *schema) { s.Properties["captured"].Type = "string" }, true},
		{"no longer always there", func(s *schema) { s.Required = s.Required[1:] }, true},
		{"another pattern", func(s *schema) { s.Properties["paymentId"].Pattern = "" }, true},
	} {
		after := eventSchema(t, EventCaptured)
		test.change(after)
		if got := breaks("x", eventSchema(t, EventCaptured), after); (len(got) > 0) != test.broken {
			t.Errorf("%s: %v", test.what, got)
		}
	}
}

// TestEventsHoldNoCardData: no field of any event is named like what a card has.
func TestEventsHoldNoCardData(t *testing.T) {
	suspect := regexp.MustCompile(`(?i)card|pan$|number|cvc|cvv|expiry|holder|token|method|secret`)
	var walk func(at string, s *schema)
	walk = func(at string, s *schema) {
		for name, property := range s.Properties {
			if suspect.MatchString(name) {
				t.Errorf("%s.%s", at, name)
			}
			walk(at+"."+name, property)
		}
	}
	for _, eventType := range EventTypes() {
		walk(eventType, eventSchema(t, eventType))
	}
}

// compiled reads the schemas of docs/events as any consumer would.
func compiled(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	out := map[string]*jsonschema.Schema{}
	for _, eventType := range EventTypes() {
		s, err := compiler.Compile(filepath.Join(eventsDir, eventType+".schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		out[eventType] = s
	}
	return out
}

// TestPayloadsFollowTheirSchemas: what moves really emit is valid, and what is not is refused.
func TestPayloadsFollowTheirSchemas(t *testing.T) {
	schemas := compiled(t)
	for _, row := range Transitions() {
		m := &move{transition: row}
		m.change.Payment.ID, m.change.Payment.Currency, m.change.Payment.Status = "pay_0001_01J00000000000000000000000", "EUR", row.To
		m.change.Payment.Authorized = 100
		if strings.HasPrefix(row.Emits, "refund.") {
			m.refunds(shard.Refund{ID: "ref_0001_01J00000000000000000000000", Amount: 10, Status: Pending})
		}
		text := pageOf(t, m.event())
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schemas[row.Emits].Validate(value); err != nil {
			t.Errorf("%s: %v\n%s", row.Emits, err, text)
		}
		value.(map[string]any)["captured"] = json.Number("1.5")
		if schemas[row.Emits].Validate(value) == nil {
			t.Errorf("%s: an amount with a fraction is let pass", row.Emits)
		}
	}
}
