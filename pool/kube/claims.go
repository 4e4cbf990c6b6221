package kube

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxToken is longer than any projected token.
const maxToken = 16 << 10

// claims is what a projected service account token says of itself. It is not
// verified: it only says what there is to be verified.
type claims struct {
	namespace, account string
	pod, uid           string
	expires            time.Time
}

// readClaims reads a token without verifying it. It refuses what the API server
// would refuse as well: what is no token of a pod, is for others, or has expired.
func readClaims(token, audience string, now time.Time) (claims, error) {
	if len(token) > maxToken {
		return claims{}, fmt.Errorf("it is longer than %d bytes", maxToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}, errors.New("it is no JSON Web Token")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}, errors.New("it is no JSON Web Token")
	}
	var said struct {
		Audience   audiences `json:"aud"`
		Expires    int64     `json:"exp"`
		Kubernetes struct {
			Namespace string `json:"namespace"`
			Pod       struct {
				Name string `json:"name"`
				UID  string `json:"uid"`
			} `json:"pod"`
			Account struct {
				Name string `json:"name"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return claims{}, errors.New("its claims are not those of a service account")
	}
	c := claims{
		namespace: said.Kubernetes.Namespace, account: said.Kubernetes.Account.Name,
		pod: said.Kubernetes.Pod.Name, uid: said.Kubernetes.Pod.UID, expires: time.Unix(said.Expires, 0),
	}
	switch {
	case c.namespace == "" || c.account == "" || c.pod == "" || c.uid == "":
		return claims{}, errors.New("it is not bound to a pod")
	case !slices.Contains(said.Audience, audience):
		return claims{}, fmt.Errorf("it is not for the audience %q", audience)
	case !now.Before(c.expires):
		return claims{}, errors.New("it has expired")
	}
	return c, nil
}

// audiences are one string or a list of them.
type audiences []string

func (a *audiences) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(a))
}
