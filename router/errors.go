package router

import (
	"errors"
	"net/http"
	"time"

	"paygrid/payment"
)

// The router's own refusals, beside those of package payment. A code never changes its meaning.
const (
	// CodeMalformedJSON: the body is not one JSON text in UTF-8, or did not arrive whole.
	CodeMalformedJSON payment.Code = "MALFORMED_JSON"
	// CodeUnknownMember: a member that the API does not know; Field names it.
	CodeUnknownMember payment.Code = "UNKNOWN_MEMBER"
	// CodeDuplicateMember: a member is there twice; Field names it.
	CodeDuplicateMember payment.Code = "DUPLICATE_MEMBER"
	// CodeMissingMember: a required member is missing; Field names it.
	CodeMissingMember payment.Code = "MISSING_MEMBER"
	// CodeInvalidType: a value has the wrong JSON type, or a number is not a plain 64-bit integer.
	CodeInvalidType payment.Code = "INVALID_TYPE"
	// CodeInvalidQuery: the query of a GET is missing, doubled, too long or unknown.
	CodeInvalidQuery payment.Code = "INVALID_QUERY"
	// CodeBodyTooLarge: the body is over 64 KiB, a webhook's over 1 MiB.
	CodeBodyTooLarge payment.Code = "BODY_TOO_LARGE"
	// CodeUnsupportedMediaType: the body is not declared as application/json in UTF-8.
	CodeUnsupportedMediaType payment.Code = "UNSUPPORTED_MEDIA_TYPE"
	// CodeInvalidKey: no idempotency key, several, or one that breaks the rules.
	CodeInvalidKey payment.Code = "INVALID_IDEMPOTENCY_KEY"
	// CodeUnauthorized: no API key or operator's token, or an unknown one.
	CodeUnauthorized payment.Code = "UNAUTHORIZED"
	// CodeCardNumber: something that looks like a card number is in the request.
	CodeCardNumber payment.Code = "CARD_NUMBER_REFUSED"
	// CodeWebhookRefused: a webhook's signature or age does not hold; the log has the cause.
	CodeWebhookRefused payment.Code = "WEBHOOK_REFUSED"
	// CodeWebhookMalformed: a webhook's body is no notice, or did not arrive whole.
	CodeWebhookMalformed payment.Code = "WEBHOOK_MALFORMED"
	// CodeRouteNotFound: there is nothing at this path.
	CodeRouteNotFound payment.Code = "ROUTE_NOT_FOUND"
	// CodeMethodNotAllowed: the path is there, for other methods; the Allow header lists them.
	CodeMethodNotAllowed payment.Code = "METHOD_NOT_ALLOWED"
	// CodeNotReady: /readyz only: this router should get no traffic now.
	CodeNotReady payment.Code = "NOT_READY"
	// CodeDraining: this router is shutting down; nothing was done.
	CodeDraining payment.Code = "DRAINING"
	// CodeDependency: something that this router needs failed before anything was decided; the log has the cause.
	CodeDependency payment.Code = "DEPENDENCY_UNAVAILABLE"
	// CodeInternal: a fault of ours; the log has the cause.
	CodeInternal payment.Code = "INTERNAL"
)

// retryDefault is when to try again where the domain does not say.
const retryDefault = time.Second

// ruling is how a code is said in HTTP.
type ruling struct {
	status int
	title  string
	retry  time.Duration // the least Retry-After; 0 = only if the error says one
}

// rulings is the one table from codes to statuses.
var rulings = map[payment.Code]ruling{
	CodeMalformedJSON:        {status: http.StatusBadRequest, title: "The body is not JSON"},
	CodeUnknownMember:        {status: http.StatusBadRequest, title: "Unknown member"},
	CodeDuplicateMember:      {status: http.StatusBadRequest, title: "Doubled member"},
	CodeMissingMember:        {status: http.StatusBadRequest, title: "Missing member"},
	CodeInvalidType:          {status: http.StatusBadRequest, title: "Wrong type"},
	CodeInvalidQuery:         {status: http.StatusBadRequest, title: "The query cannot be used"},
	CodeInvalidKey:           {status: http.StatusBadRequest, title: "The idempotency key cannot be used"},
	CodeCardNumber:           {status: http.StatusBadRequest, title: "Card number refused"},
	CodeUnauthorized:         {status: http.StatusUnauthorized, title: "Not authenticated"},
	CodeWebhookMalformed:     {status: http.StatusBadRequest, title: "The webhook cannot be read"},
	CodeWebhookRefused:       {status: http.StatusUnauthorized, title: "Webhook refused"},
	CodeRouteNotFound:        {status: http.StatusNotFound, title: "Nothing here"},
	CodeMethodNotAllowed:     {status: http.StatusMethodNotAllowed, title: "Method not allowed"},
	CodeBodyTooLarge:         {status: http.StatusRequestEntityTooLarge, title: "Body too large"},
	CodeUnsupportedMediaType: {status: http.StatusUnsupportedMediaType, title: "Media type not supported"},
	CodeNotReady:             {status: http.StatusServiceUnavailable, title: "Not ready", retry: retryDefault},
	CodeDraining:             {status: http.StatusServiceUnavailable, title: "Shutting down", retry: retryDefault},
	CodeDependency:           {status: http.StatusServiceUnavailable, title: "Try again", retry: retryDefault},
	CodeInternal:             {status: http.StatusInternalServerError, title: "Internal error"},

	payment.CodeNotFound:           {status: http.StatusNotFound, title: "No such payment"},
	payment.CodeCaptureInDoubt:     {status: http.StatusConflict, title: "A capture is in doubt"},
	payment.CodeVoidInDoubt:        {status: http.StatusConflict, title: "A void is in doubt"},
	payment.CodeExpired:            {status: http.StatusConflict, title: "The authorization has expired"},
	payment.CodeWrongState:         {status: http.StatusConflict, title: "The payment's state does not allow it"},
	payment.CodeAlreadyReversed:    {status: http.StatusConflict, title: "Already reversed"},
	payment.CodeBusy:               {status: http.StatusConflict, title: "The payment is busy", retry: retryDefault},
	payment.CodeUnavailable:        {status: http.StatusServiceUnavailable, title: "The payment's shard is unavailable", retry: retryDefault},
	payment.CodeOverloaded:         {status: http.StatusServiceUnavailable, title: "Under stress; come back later", retry: retryDefault},
	payment.CodePSPUnavailable:     {status: http.StatusServiceUnavailable, title: "No PSP is available", retry: retryDefault},
	payment.CodeKeyReused:          {status: http.StatusUnprocessableEntity, title: "Idempotency key reused"},
	payment.CodeInvalid:            {status: http.StatusUnprocessableEntity, title: "A value breaks a rule"},
	payment.CodeAmountTooLarge:     {status: http.StatusUnprocessableEntity, title: "Amount too large"},
	payment.CodeSplitsMismatch:     {status: http.StatusUnprocessableEntity, title: "The splits do not add up"},
	payment.CodeDuplicateSeller:    {status: http.StatusUnprocessableEntity, title: "The same seller twice"},
	payment.CodeCurrencyUnknown:    {status: http.StatusUnprocessableEntity, title: "Unknown currency"},
	payment.CodeCurrencyMismatch:   {status: http.StatusUnprocessableEntity, title: "Currency mismatch"},
	payment.CodeAmountNotSupported: {status: http.StatusUnprocessableEntity, title: "The PSP cannot take this amount"},
	payment.CodeNoPSP:              {status: http.StatusUnprocessableEntity, title: "No PSP for this payment method"},
	payment.CodeCaptureExceeds:     {status: http.StatusUnprocessableEntity, title: "More than was authorized"},
	payment.CodeRefundExceeds:      {status: http.StatusUnprocessableEntity, title: "More than was captured"},
}

// rulingOf is the ruling on a code. A code that is not in the table yet is a rule of the domain: 422.
func rulingOf(code payment.Code) ruling {
	if r, ok := rulings[code]; ok {
		return r
	}
	return ruling{status: http.StatusUnprocessableEntity, title: "A rule refuses the request"}
}

// kindStatus is the one table from answers to statuses.
var kindStatus = map[payment.Kind]int{
	payment.KindAuthorized:     http.StatusCreated,
	payment.KindCharged:        http.StatusCreated,
	payment.KindActionRequired: http.StatusOK,
	payment.KindDeclined:       http.StatusPaymentRequired,
	payment.KindUnavailable:    http.StatusServiceUnavailable,
	payment.KindRejected:       http.StatusUnprocessableEntity,
	payment.KindCaptured:       http.StatusOK,
	payment.KindVoided:         http.StatusOK,
	payment.KindRefunded:       http.StatusCreated,
	payment.KindRefused:        http.StatusUnprocessableEntity,
	payment.KindProcessing:     http.StatusAccepted,
}

// viewStatus is kindStatus for an answer that shows a payment as it is now: it makes nothing, so it is never 201.
func viewStatus(kind payment.Kind) (int, bool) {
	status, known := kindStatus[kind]
	if status == http.StatusCreated {
		status = http.StatusOK
	}
	return status, known
}

// asRefusal makes a *payment.Error of any error. What is none is a dependency's failure: nothing was decided, so the
// same request with the same key is safe to send again.
func asRefusal(err error) *payment.Error {
	var refusal *payment.Error
	if errors.As(err, &refusal) && refusal != nil {
		return refusal
	}
	return &payment.Error{Code: CodeDependency, Detail: "the request could not be completed now",
		Remedy: "send the same request with the same Idempotency-Key again", Err: err}
}
