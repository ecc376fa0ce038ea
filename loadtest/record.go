package loadtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"paygrid/ledger"
)

// Recorder is a reverse proxy that passes everything on as it is and notes payments as a trace. Of persons and cards it keeps
// nothing: clients, orders, keys and sellers become hashes under a secret that is never written, tokens become kinds of cards by
// how their payments ended, and customers, brands, digits, expiries, return URLs and API keys are left out. Amounts,
// currencies, countries and times stay.
type Recorder struct {
	proxy  *httputil.ReverseProxy
	secret []byte
	now    func() time.Time
	start  time.Time

	mu       sync.Mutex
	arrivals []*Arrival
	byKey    map[string]*Arrival // pseudonyms of client and key
	byID     map[string]*Arrival // the payment
	seen     map[string]bool     // keys of what followed
	firstAt  map[*Arrival]time.Duration
	dropped  int
}

const maxRecordedBody = 1 << 20

// NewRecorder passes requests on to target. The secret makes the pseudonyms: take a random one and forget it.
func NewRecorder(target *url.URL, secret []byte, now func() time.Time) *Recorder {
	r := &Recorder{secret: secret, now: now, start: now(), byKey: map[string]*Arrival{}, byID: map[string]*Arrival{}, seen: map[string]bool{},
		firstAt: map[*Arrival]time.Duration{}}
	r.proxy = &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target); p.Out.Host = p.In.Host }}
	return r
}

// ServeHTTP passes one request on.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost || !strings.HasPrefix(request.URL.Path, paymentsPath) {
		r.proxy.ServeHTTP(w, request)
		return
	}
	at := r.now().Sub(r.start)
	body, err := io.ReadAll(io.LimitReader(request.Body, maxRecordedBody+1))
	rest := request.Body
	request.Body = readCloser{io.MultiReader(bytes.NewReader(body), rest), rest}
	tee := &teeWriter{ResponseWriter: w, status: http.StatusOK}
	r.proxy.ServeHTTP(tee, request)
	if err == nil && len(body) <= maxRecordedBody {
		r.note(at, request, body, tee)
	}
}

type readCloser struct {
	io.Reader
	io.Closer
}

// teeWriter keeps a copy of the answer.
type teeWriter struct {
	http.ResponseWriter
	status int
	copy   bytes.Buffer
}

func (t *teeWriter) WriteHeader(status int) {
	t.status = status
	t.ResponseWriter.WriteHeader(status)
}

func (t *teeWriter) Write(b []byte) (int, error) {
	if t.copy.Len()+len(b) <= maxRecordedBody {
		t.copy.Write(b)
	}
	return t.ResponseWriter.Write(b)
}

// Unwrap lets the proxy flush.
func (t *teeWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// pseudonym hides a name: the same name has the same one within a recording, and nobody can find the name again.
func (r *Recorder) pseudonym(kind, name string) string {
	mac := hmac.New(sha256.New, r.secret)
	mac.Write([]byte(kind + "\x00" + name))
	return kind + "-" + hex.EncodeToString(mac.Sum(nil)[:8])
}

// recordedSale is what is read of an authorization's body.
type recordedSale struct {
	OrderID       string
	Amount        ledger.Money
	PaymentMethod json.RawMessage
	CaptureMode   string
	Splits        []ledger.Split
}

func (r *Recorder) note(at time.Duration, request *http.Request, body []byte, answer *teeWriter) {
	var said replyBody
	_ = json.Unmarshal(answer.copy.Bytes(), &said) // what is no JSON says nothing
	client := r.pseudonym("client", request.Header.Get("Authorization"))
	key := r.pseudonym("key", client+"\x00"+request.Header.Get("Idempotency-Key"))
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.URL.Path == paymentsPath {
		r.noteSale(at, client, key, body, answer.status, said)
		return
	}
	rest, _ := strings.CutPrefix(request.URL.Path, paymentsPath+"/")
	id, what, _ := strings.Cut(rest, "/")
	op, ok := map[string]Op{"capture": Capture, "void": Void, "refunds": Refund}[what]
	a := r.byID[id]
	if !ok || a == nil || r.seen[key+id+what] || answer.status >= http.StatusBadRequest && answer.status != http.StatusUnprocessableEntity {
		return
	}
	r.seen[key+id+what] = true
	var asked part
	_ = json.Unmarshal(body, &asked) // an empty object asks for all
	l := Later{Op: op, AfterMS: (at - r.firstAt[a]).Milliseconds(), Minor: asked.Amount.Minor}
	if a.Then = append(a.Then, l); l.Op == Void {
		a.Then[len(a.Then)-1].Minor = 0
	}
}

// noteSale notes an authorization, or that it came again under its key.
func (r *Recorder) noteSale(at time.Duration, client, key string, body []byte, status int, said replyBody) {
	if a := r.byKey[key]; a != nil {
		if len(a.Repeats) < maxRepeats {
			a.Repeats = append(a.Repeats, max(0, (at-r.firstAt[a]).Milliseconds()))
		}
		r.named(a, status, said)
		return
	}
	var sale recordedSale
	if json.Unmarshal(body, &sale) != nil || len(r.arrivals) >= MaxArrivals {
		r.dropped++
		return
	}
	a := &Arrival{AtMS: at.Milliseconds(), Client: client, Key: key, Order: r.pseudonym("order", client+"\x00"+sale.OrderID), Amount: sale.Amount,
		Charge: sale.CaptureMode == "automatic", Card: CardOK}
	var method paymentMethod
	_ = json.Unmarshal(sale.PaymentMethod, &method) // a plain token says nothing of the country
	a.Country = method.Country
	for psp := range method.Tokens {
		a.PSPs = append(a.PSPs, psp)
	}
	slices.Sort(a.PSPs)
	for _, s := range sale.Splits {
		a.Sellers = append(a.Sellers, ledger.Split{SellerID: r.pseudonym("s", s.SellerID), Minor: s.Minor, CommissionMinor: s.CommissionMinor})
	}
	if field, _ := a.fault(); field != "" {
		r.dropped++ // what the API refused, a trace cannot hold
		return
	}
	r.arrivals, r.byKey[key], r.firstAt[a] = append(r.arrivals, a), a, at
	r.named(a, status, said)
}

// named reads from an answer which payment it is, and how the card did.
func (r *Recorder) named(a *Arrival, status int, said replyBody) {
	if said.ID != "" && said.Code == "" {
		r.byID[said.ID] = a
	}
	switch {
	case status == http.StatusPaymentRequired:
		a.Card = CardDeclined
	case status == http.StatusAccepted:
		a.Card = CardLost
	case status == http.StatusOK:
		a.Card = CardBuyer
	case status == http.StatusCreated:
		a.Card = CardOK
	}
}

// WriteTrace writes what was recorded so far, in the order of the times; dropped requests were none that a trace can hold.
func (r *Recorder) WriteTrace(w io.Writer) (written, dropped int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.arrivals)
	slices.SortStableFunc(all, func(a, b *Arrival) int { return int(a.AtMS - b.AtMS) })
	written, err = WriteTrace(w, func(yield func(Arrival, error) bool) {
		for _, a := range all {
			line := *a
			line.Then = slices.Clone(a.Then)
			slices.SortStableFunc(line.Then, func(a, b Later) int { return int(a.AfterMS - b.AfterMS) })
			line.Then = line.Then[:min(len(line.Then), maxLaters)]
			if !yield(line, nil) {
				return
			}
		}
	})
	return written, r.dropped, err
}
