package simulator

import (
	"encoding/json"
	"net/http"
)

// The types of Adyen's errors.
const (
	adyenValidation    = "validation"
	adyenSecurity      = "security"
	adyenConfiguration = "configuration"
	adyenInternal      = "internal"
)

// adyenError is the body of an answer above 399.
type adyenError struct {
	Status    int    `json:"status"`
	ErrorCode string `json:"errorCode"`
	Message   string `json:"message"`
	ErrorType string `json:"errorType"`
}

// adyenFail returns an error answer that is not kept.
func adyenFail(status int, code, message, kind string) *answer {
	return &answer{status: status, body: encode(adyenError{status, code, message, kind})}
}

// unprocessable returns the 422 of a bad field.
func unprocessable(code, message string) *answer {
	return adyenFail(http.StatusUnprocessableEntity, code, message, adyenValidation)
}

// adyenAmount is an amount in Adyen's unit.
type adyenAmount struct {
	Currency string `json:"currency"`
	Value    int64  `json:"value"`
}

// adyenRequest holds the fields of all calls that are looked at. Fields that Adyen has and that mean nothing here are
// accepted unread; one that it does not have is refused, so that a misspelt field of an adapter cannot pass in silence.
type adyenRequest struct {
	MerchantAccount   string             `json:"merchantAccount"`
	Amount            *adyenAmount       `json:"amount"`
	Reference         string             `json:"reference"`
	PaymentReference  string             `json:"paymentReference"`
	ReturnURL         string             `json:"returnUrl"`
	PaymentMethod     adyenPaymentMethod `json:"paymentMethod"`
	AdditionalData    map[string]string  `json:"additionalData"`
	Metadata          map[string]string  `json:"metadata"`
	CaptureDelayHours *int               `json:"captureDelayHours"`
	Details           map[string]string  `json:"details"`
	PaymentData       string             `json:"paymentData"`

	ignoredAdyen
}

type ignoredAdyen struct {
	ShopperReference         json.RawMessage `json:"shopperReference"`
	ShopperInteraction       json.RawMessage `json:"shopperInteraction"`
	RecurringProcessingModel json.RawMessage `json:"recurringProcessingModel"`
	StorePaymentMethod       json.RawMessage `json:"storePaymentMethod"`
	MerchantOrderReference   json.RawMessage `json:"merchantOrderReference"`
	MerchantRefundReason     json.RawMessage `json:"merchantRefundReason"`
	CapturePspReference      json.RawMessage `json:"capturePspReference"`
	Splits                   json.RawMessage `json:"splits"`
	LineItems                json.RawMessage `json:"lineItems"`
	ShopperEmail             json.RawMessage `json:"shopperEmail"`
	ShopperIP                json.RawMessage `json:"shopperIP"`
	ShopperName              json.RawMessage `json:"shopperName"`
	ShopperLocale            json.RawMessage `json:"shopperLocale"`
	ShopperStatement         json.RawMessage `json:"shopperStatement"`
	BrowserInfo              json.RawMessage `json:"browserInfo"`
	Origin                   json.RawMessage `json:"origin"`
	Channel                  json.RawMessage `json:"channel"`
	CountryCode              json.RawMessage `json:"countryCode"`
	BillingAddress           json.RawMessage `json:"billingAddress"`
	DeliveryAddress          json.RawMessage `json:"deliveryAddress"`
	AuthenticationData       json.RawMessage `json:"authenticationData"`
	MpiData                  json.RawMessage `json:"mpiData"`
	ApplicationInfo          json.RawMessage `json:"applicationInfo"`
	Store                    json.RawMessage `json:"store"`
	ThreeDSComplete          json.RawMessage `json:"threeDSAuthenticationOnly"`
}

type adyenPaymentMethod struct {
	Type                  string `json:"type"`
	StoredPaymentMethodID string `json:"storedPaymentMethodId"`
	Number                string `json:"number"`
	EncryptedCardNumber   string `json:"encryptedCardNumber"`
	HolderName            string `json:"holderName"`

	ignoredMethod
}

type ignoredMethod struct {
	Brand                   json.RawMessage `json:"brand"`
	CVC                     json.RawMessage `json:"cvc"`
	ExpiryMonth             json.RawMessage `json:"expiryMonth"`
	ExpiryYear              json.RawMessage `json:"expiryYear"`
	EncryptedExpiryMonth    json.RawMessage `json:"encryptedExpiryMonth"`
	EncryptedExpiryYear     json.RawMessage `json:"encryptedExpiryYear"`
	EncryptedSecurityCode   json.RawMessage `json:"encryptedSecurityCode"`
	NetworkPaymentReference json.RawMessage `json:"networkPaymentReference"`
	CheckoutAttemptID       json.RawMessage `json:"checkoutAttemptId"`
}

// adyenPayment answers payments and payments/details.
type adyenPayment struct {
	PSPReference      string            `json:"pspReference"`
	ResultCode        string            `json:"resultCode"`
	MerchantReference string            `json:"merchantReference"`
	RefusalReason     string            `json:"refusalReason,omitempty"`
	RefusalReasonCode string            `json:"refusalReasonCode,omitempty"`
	Amount            *adyenAmount      `json:"amount,omitempty"`
	PaymentMethod     map[string]string `json:"paymentMethod,omitempty"`
	AdditionalData    map[string]string `json:"additionalData,omitempty"`
	Action            *adyenAction      `json:"action,omitempty"`
}

type adyenAction struct {
	Type              string `json:"type"`
	Method            string `json:"method"`
	PaymentData       string `json:"paymentData"`
	PaymentMethodType string `json:"paymentMethodType"`
	URL               string `json:"url"`
}

// adyenModification answers captures, cancels and refunds: received, no more.
type adyenModification struct {
	MerchantAccount     string       `json:"merchantAccount"`
	PaymentPSPReference string       `json:"paymentPspReference,omitempty"`
	PaymentReference    string       `json:"paymentReference,omitempty"`
	PSPReference        string       `json:"pspReference"`
	Reference           string       `json:"reference,omitempty"`
	Status              string       `json:"status"`
	Amount              *adyenAmount `json:"amount,omitempty"`
}

// The result codes that are answered.
const (
	resultAuthorised = "Authorised"
	resultRefused    = "Refused"
	resultError      = "Error"
	resultCancelled  = "Cancelled"
	resultReceived   = "Received"
	resultRedirect   = "RedirectShopper"
)
