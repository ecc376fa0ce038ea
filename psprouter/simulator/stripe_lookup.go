package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func found(body any) answer { return answer{status: http.StatusOK, body: encode(body)} }

// visible brings a payment up to date and tells whether look-ups see it yet.
func (s *Simulator) visible(p *payment) bool {
	now := s.opts.Now()
	s.catchUp(p, now)
	return !now.Before(p.hiddenUntil)
}

func (s *stripeDialect) retrieveIntent(r *http.Request) answer {
	p := s.payments[r.PathValue("id")]
	if p == nil || !s.visible(p) {
		return *missing("payment_intent", r.PathValue("id"))
	}
	return found(renderIntent(p, expands(r.URL.Query())))
}

func (s *stripeDialect) retrieveRefund(r *http.Request) answer {
	one := s.refunds[r.PathValue("id")]
	if one == nil {
		return *missing("refund", r.PathValue("id"))
	}
	return found(renderRefund(one))
}

// listIntents serves GET /v1/payment_intents: strongly consistent, newest first, filtered by creation time.
func (s *stripeDialect) listIntents(r *http.Request) answer {
	query := r.URL.Query()
	window, bad := createdIn(query)
	if bad = cmp.Or(checkNames(query, listParams), bad); bad != nil {
		return *bad
	}
	matching := s.newestFirst(query, func(p *payment) bool { return window.holds(p.created) && s.visible(p) })
	page, more, bad := pageOf(matching, query, func(p *payment) string { return p.ref })
	if bad != nil {
		return *bad
	}
	return found(wireList{Object: "list", URL: "/v1/payment_intents", HasMore: more, Data: renderIntents(page, query)})
}

// newestFirst returns the payments to show as far as pageOf needs them: from its cursor to one more than a page.
func (s *stripeDialect) newestFirst(query url.Values, show func(*payment) bool) []*payment {
	enough, from := maxLimit+2, len(s.order)
	if query.Has("ending_before") {
		enough = from
	}
	if cursor := s.payments[query.Get("starting_after")]; cursor != nil && show(cursor) {
		from = cursor.place + 1
	}
	var matching []*payment
	for _, p := range slices.Backward(s.order[:from]) {
		if len(matching) == enough {
			break
		}
		if show(p) {
			matching = append(matching, p)
		}
	}
	return matching
}

func renderIntents(page []*payment, query url.Values) []*wireIntent {
	expand := slices.Contains(query["expand[]"], "data.latest_charge") || slices.Contains(query["expand[0]"], "data.latest_charge")
	data := make([]*wireIntent, len(page))
	for i, p := range page {
		data[i] = renderIntent(p, expand)
	}
	return data
}

func (s *stripeDialect) listRefunds(r *http.Request) answer {
	query := r.URL.Query()
	window, bad := createdIn(query)
	if bad = cmp.Or(checkNames(query, listParams), bad); bad != nil {
		return *bad
	}
	of := s.order
	if ref := query.Get("payment_intent"); ref != "" {
		of = nil
		if p := s.payments[ref]; p != nil {
			of = []*payment{p}
		}
	}
	var matching []*refund
	for _, p := range slices.Backward(of) {
		for _, one := range slices.Backward(p.refunds) {
			if window.holds(one.created) {
				matching = append(matching, one)
			}
		}
	}
	slices.SortStableFunc(matching, func(a, b *refund) int { return b.created.Compare(a.created) })
	page, more, bad := pageOf(matching, query, func(one *refund) string { return one.ref })
	if bad != nil {
		return *bad
	}
	data := make([]wireRefund, len(page))
	for i, one := range page {
		data[i] = renderRefund(one)
	}
	return found(wireList{Object: "list", URL: "/v1/refunds", HasMore: more, Data: data})
}

// searchIntents serves GET /v1/payment_intents/search. Clauses are joined by AND.
func (s *stripeDialect) searchIntents(r *http.Request) answer {
	query := r.URL.Query()
	clauses, bad := clausesIn(query.Get("query"))
	limit, bad2 := limitIn(query)
	from, err := strconv.Atoi(cmp.Or(query.Get("page"), "0"))
	if bad = cmp.Or(checkNames(query, searchParams), bad, bad2); bad != nil {
		return *bad
	}
	if err != nil || from < 0 {
		return *invalid("", "page", "Invalid page.")
	}
	var matching []*payment
	for _, p := range slices.Backward(s.candidates(clauses)) {
		if s.visible(p) && !slices.ContainsFunc(clauses, func(c clause) bool { return c.of(p) != c.value }) {
			matching = append(matching, p)
		}
	}
	matching = matching[min(from, len(matching)):]
	list := wireList{Object: "search_result", URL: "/v1/payment_intents/search", HasMore: len(matching) > limit}
	if list.HasMore {
		next := strconv.Itoa(from + limit)
		list.NextPage, matching = &next, matching[:limit]
	}
	list.Data = renderIntents(matching, query)
	return found(list)
}

// candidates are all payments that clauses can hold for, oldest first.
func (s *stripeDialect) candidates(clauses []clause) []*payment {
	for _, c := range clauses {
		if c.field == "metadata" && c.key == metaAttempt && c.value != "" {
			return s.labelled[c.value]
		}
	}
	return s.order
}

// clause is field:"value" of a search query.
type clause struct{ field, key, value string }

var clauseRE = regexp.MustCompile(`^(metadata|status|currency|amount)(?:\[["']([^"']{1,40})["']\])?:["']?([^"']*)["']?$`)

func clausesIn(text string) ([]clause, *answer) {
	var clauses []clause
	for _, one := range strings.Split(text, " AND ") {
		m := clauseRE.FindStringSubmatch(strings.TrimSpace(one))
		if m == nil || (m[1] == "metadata") != (m[2] != "") {
			return nil, invalid("", "query", "We were unable to parse your search query.")
		}
		clauses = append(clauses, clause{field: m[1], key: m[2], value: m[3]})
	}
	return clauses, nil
}

func (c clause) of(p *payment) string {
	switch c.field {
	case "metadata":
		return p.metadata[c.key]
	case "status":
		return p.status
	case "currency":
		return p.currency
	}
	return strconv.FormatInt(p.amount, 10)
}

// window is a range of creation times in whole seconds.
type window struct{ from, to int64 }

func (w window) holds(t time.Time) bool { return t.Unix() >= w.from && t.Unix() <= w.to }

func createdIn(query url.Values) (window, *answer) {
	w := window{from: -1 << 62, to: 1 << 62}
	for name, values := range query {
		if top, _, _ := strings.Cut(name, "["); top != "created" {
			continue
		}
		at, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil {
			return w, invalid("parameter_invalid_integer", name, "Invalid timestamp: "+values[0])
		}
		switch name {
		case "created":
			w = window{from: at, to: at}
		case "created[gte]":
			w.from = max(w.from, at)
		case "created[gt]":
			w.from = max(w.from, at+1)
		case "created[lte]":
			w.to = min(w.to, at)
		case "created[lt]":
			w.to = min(w.to, at-1)
		default:
			return w, invalid("parameter_unknown", name, "Received unknown parameter: "+name)
		}
	}
	return w, nil
}

// maxLimit is the largest page.
const maxLimit = 100

func limitIn(query url.Values) (int, *answer) {
	limit, err := strconv.Atoi(cmp.Or(query.Get("limit"), "10"))
	if err != nil || limit < 1 || limit > maxLimit {
		return 0, invalid("parameter_invalid_integer", "limit", "Limit must be 1 to 100.")
	}
	return limit, nil
}

// pageOf cuts one page by Stripe's cursors out of a list that is newest first.
func pageOf[T any](list []T, query url.Values, ref func(T) string) (page []T, more bool, bad *answer) {
	limit, bad := limitIn(query)
	if bad != nil {
		return nil, false, bad
	}
	after, before := query.Get("starting_after"), query.Get("ending_before")
	at := slices.IndexFunc(list, func(one T) bool { return ref(one) == cmp.Or(after, before) })
	switch {
	case after != "" && before != "":
		return nil, false, invalid("", "starting_after", "Give one cursor, not two.")
	case (after != "" || before != "") && at < 0:
		return nil, false, invalid("resource_missing", "starting_after", fmt.Sprintf("No such object: '%.80s'", cmp.Or(after, before)))
	case before != "":
		from := max(0, at-limit)
		return list[from:at], from > 0, nil
	case after != "":
		list = list[at+1:]
	}
	return list[:min(limit, len(list))], len(list) > limit, nil
}
