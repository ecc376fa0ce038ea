package router

import (
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"paygrid/payment"
)

func (r *Router) get(c *gin.Context) {
	id, err := acceptRead(c)
	if err != nil {
		r.refuse(c, err)
		return
	}
	view, err := r.payments.Get(c.Request.Context(), exchangeOf(c).client, id)
	if err != nil {
		r.refuse(c, err)
		return
	}
	r.writeJSON(c, http.StatusOK, "application/json", view)
}

func (r *Router) ledger(c *gin.Context) {
	id, err := acceptRead(c)
	if err != nil {
		r.refuse(c, err)
		return
	}
	view, err := r.payments.Ledger(c.Request.Context(), exchangeOf(c).client, id)
	if err != nil {
		r.refuse(c, err)
		return
	}
	r.writeJSON(c, http.StatusOK, "application/json", view)
}

// paymentList is the answer to a search.
type paymentList struct {
	Payments []payment.View `json:"payments"`
}

func (r *Router) byOrder(c *gin.Context) {
	orderID, err := orderIDOf(c.Request.URL.RawQuery)
	if err != nil {
		r.refuse(c, err)
		return
	}
	views, err := r.payments.ByOrder(c.Request.Context(), exchangeOf(c).client, orderID)
	if err != nil {
		r.refuse(c, err)
		return
	}
	r.writeJSON(c, http.StatusOK, "application/json", paymentList{Payments: views})
}

// acceptRead checks a read of one payment and returns its ID.
func acceptRead(c *gin.Context) (string, error) {
	if err := refuseCardQuery(c.Request.URL.RawQuery); err != nil {
		return "", err
	}
	return paymentID(c)
}

// orderIDOf reads ?orderId=, exactly once and nothing else: an unknown parameter would be a filter that we ignore.
func orderIDOf(rawQuery string) (string, error) {
	if err := refuseCardQuery(rawQuery); err != nil {
		return "", err
	}
	query, err := url.ParseQuery(rawQuery)
	orderIDs := query["orderId"]
	ok := err == nil && len(query) == 1 && len(orderIDs) == 1
	if !ok || orderIDs[0] == "" || len(orderIDs[0]) > orderIDBytesMax {
		return "", &payment.Error{Code: CodeInvalidQuery, Detail: "the query must be one orderId of 1 to 255 bytes",
			Remedy: "ask for /v1/payments?orderId=<your order>"}
	}
	return orderIDs[0], nil
}
