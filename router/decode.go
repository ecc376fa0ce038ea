package router

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"paygrid/payment"
)

// decoder reads one JSON document strictly: no unknown, doubled or missing member, no wrong type, no trailing data, no
// invalid UTF-8. Every error is a *payment.Error whose Field is a JSON pointer, and none repeats a value.
type decoder struct{ dec *jsontext.Decoder }

// member is one member that an object may have; read takes its value off the decoder.
type member struct {
	name     string
	required bool
	read     func(*decoder) error
}

// decodeObject reads body as one object of the members.
func decodeObject(body []byte, members []member) error {
	if !utf8.Valid(body) {
		return malformed("the body is not valid UTF-8")
	}
	d := &decoder{dec: jsontext.NewDecoder(bytes.NewReader(body))}
	if err := d.object(members); err != nil {
		return err
	}
	if _, err := d.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return malformed("there is more after the JSON object")
	}
	return nil
}

// object reads an object and then names the first required member that was not in it. A slice has at most 64 members.
func (d *decoder) object(members []member) error {
	if err := d.open('{', "an object"); err != nil {
		return err
	}
	at := d.dec.StackPointer()
	var seen uint64 // bit i: members[i] was there
	for d.dec.PeekKind() != '}' {
		i, err := d.memberIndex(members)
		if err != nil {
			return err
		}
		seen |= 1 << i
		if err := members[i].read(d); err != nil {
			return err
		}
	}
	for i, m := range members {
		if m.required && seen&(1<<i) == 0 {
			return &payment.Error{Code: CodeMissingMember, Field: string(at.AppendToken(m.name)),
				Detail: "the member " + m.name + " is missing", Remedy: "add it"}
		}
	}
	return d.skip() // the closing brace
}

// memberIndex reads a member's name and finds it in the table.
func (d *decoder) memberIndex(members []member) (int, error) {
	name, err := d.dec.ReadToken()
	if err != nil {
		return 0, d.syntax(err)
	}
	for i, m := range members {
		if name.String() == m.name { // names are case-sensitive, as in JSON
			return i, nil
		}
	}
	return 0, &payment.Error{Code: CodeUnknownMember, Field: safePointer(d.dec.StackPointer()),
		Detail: "the API knows no such member", Remedy: "remove it or mend its spelling; see /openapi.yaml"}
}

// array reads an array, calling element for each.
func (d *decoder) array(element func(*decoder) error) error {
	if err := d.open('[', "an array"); err != nil {
		return err
	}
	for d.dec.PeekKind() != ']' {
		if err := element(d); err != nil {
			return err
		}
	}
	return d.skip()
}

// textMap reads an object of any member names with string values.
func (d *decoder) textMap() (map[string]string, error) {
	if err := d.open('{', "an object"); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for d.dec.PeekKind() != '}' {
		name, err := d.dec.ReadToken()
		if err != nil {
			return nil, d.syntax(err)
		}
		key := name.String() // a token is only good until the next read
		if out[key], err = d.text(); err != nil {
			return nil, err
		}
	}
	return out, d.skip()
}

// text reads a string. Control characters are refused: no name, ID or token has any, and PostgreSQL cannot store NUL.
func (d *decoder) text() (string, error) {
	raw, err := d.scalar('"', "a string")
	if err != nil {
		return "", err
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", d.syntax(err)
	}
	if bytes.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return "", d.invalid("must not hold control characters")
	}
	return string(s), nil
}

// integer reads a JSON number that is written as an integer and fits in 64 bits. 1000.0 and 1e3 are refused although
// they name integers: who writes amounts so computes them in floating point.
func (d *decoder) integer() (int64, error) {
	raw, err := d.scalar('0', "an integer")
	if err != nil {
		return 0, err
	}
	s := string(raw)
	if strings.ContainsAny(s, ".eE") || s == "-0" {
		return 0, d.wrongType("a plain integer, without fraction, exponent or negative zero")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, d.wrongType("an integer of at most 64 bits")
	}
	return n, nil
}

// scalar reads one value and wants it to be of the kind.
func (d *decoder) scalar(kind jsontext.Kind, what string) (jsontext.Value, error) {
	raw, err := d.dec.ReadValue()
	if err != nil {
		return nil, d.syntax(err)
	}
	if raw.Kind() != kind {
		return nil, d.wrongType(what)
	}
	return raw, nil
}

// open reads the beginning of an object or array. Another value is read whole first, so that the error points at it.
func (d *decoder) open(kind jsontext.Kind, what string) error {
	if d.dec.PeekKind() != kind {
		_, err := d.scalar(kind, what)
		return err
	}
	return d.skip()
}

// skip reads a token that PeekKind has shown already.
func (d *decoder) skip() error {
	if _, err := d.dec.ReadToken(); err != nil {
		return d.syntax(err)
	}
	return nil
}

// null reads a null if the next value is one.
func (d *decoder) null() (bool, error) {
	if d.dec.PeekKind() != 'n' {
		return false, nil
	}
	return true, d.skip()
}

// syntax turns the JSON library's error into ours, without the text that it quotes from the body.
func (d *decoder) syntax(err error) error {
	var bad *jsontext.SyntacticError
	if !errors.As(err, &bad) {
		return malformed("the body ends in the middle of the JSON text")
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return &payment.Error{Code: CodeDuplicateMember, Field: safePointer(bad.JSONPointer),
			Detail: "the member is there twice", Remedy: "send it once"}
	}
	return malformed(fmt.Sprintf("the body is not JSON from byte %d on", bad.ByteOffset))
}

// wrongType refuses the value just read.
func (d *decoder) wrongType(want string) error {
	return &payment.Error{Code: CodeInvalidType, Field: safePointer(d.dec.StackPointer()),
		Detail: "the value must be " + want, Remedy: "send " + want}
}

// invalid refuses the value just read, which has the right type but breaks a rule.
func (d *decoder) invalid(rule string) error {
	return &payment.Error{Code: payment.CodeInvalid, Field: safePointer(d.dec.StackPointer()),
		Detail: "the value " + rule, Remedy: "mend the value"}
}

func malformed(detail string) error {
	return &payment.Error{Code: CodeMalformedJSON, Detail: detail, Remedy: "send one JSON object in UTF-8"}
}
