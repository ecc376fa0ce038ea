package stripe

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	stripego "github.com/stripe/stripe-go/v82"
)

// Limits of a list that one inquiry reads: at Stripe's largest pages, 10,000 objects. Beyond it nothing is known.
const (
	pageSize = 100
	maxPages = 100
)

// list is a list or a search of Stripe's: what is asked, and which objects are kept. A list is continued after the id of its
// last object; a search, which has no id here, by the page that it names.
type list[T any] struct {
	path  string
	query url.Values
	id    func(*T) string
	keep  func(*T) bool
	left  *atomic.Int64 // pages that may still be read, shared by several lists; nil = maxPages
}

// firstQuery is that of the first page.
func (l list[T]) firstQuery() url.Values {
	query := maps.Clone(l.query)
	query.Set("limit", strconv.Itoa(pageSize))
	return query
}

// keepOf returns what is kept of a page.
func (l list[T]) keepOf(data []*T) []*T {
	var kept []*T
	for _, one := range data {
		if one != nil && l.keep(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// page is the envelope of one answer. stripe-go's own iterators do not look at Object: to them an empty object is an empty
// list, and so proof of absence.
type page[T any] struct {
	stripego.APIResource
	Object   string  `json:"object"`
	HasMore  *bool   `json:"has_more"`
	NextPage *string `json:"next_page"`
	Data     []*T    `json:"data"`
}

// pages reads a list to its end and returns what is kept, or an error if any part of it could not be read.
func pages[T any](ctx context.Context, a *Adapter, l list[T]) ([]*T, error) {
	query, left := l.firstQuery(), l.left
	if left == nil {
		left = new(atomic.Int64)
		left.Store(maxPages)
	}
	var kept []*T
	for left.Add(-1) >= 0 {
		p, err := onePage[T](ctx, a, l.path+"?"+query.Encode(), l.id == nil)
		if err != nil {
			return nil, err
		}
		kept = append(kept, l.keepOf(p.Data)...)
		switch {
		case !*p.HasMore:
			return kept, nil
		case l.id == nil && p.NextPage != nil:
			query.Set("page", *p.NextPage)
		case l.id != nil && len(p.Data) > 0 && p.Data[len(p.Data)-1] != nil:
			query.Set("starting_after", l.id(p.Data[len(p.Data)-1]))
		default:
			return nil, fmt.Errorf("%s has more, but does not say where", l.path)
		}
	}
	return nil, fmt.Errorf("%s has more objects than may be read", l.path)
}

func onePage[T any](ctx context.Context, a *Adapter, path string, search bool) (page[T], error) {
	var p page[T]
	err := a.lookUp(ctx, func(ctx context.Context) error {
		return a.backend.CallRaw(http.MethodGet, path, a.key, nil, &stripego.Params{Context: ctx}, &p)
	})
	want := "list"
	if search {
		want = "search_result"
	}
	if err == nil && (p.Object != want || p.HasMore == nil || p.Data == nil) {
		err = fmt.Errorf("the look-up was answered with %.40q, not with a %s", p.Object, want)
	}
	return p, err
}
