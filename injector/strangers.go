package injector

import (
	"bytes"
	"encoding/pem"
	"maps"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// whom is whom the API server shall believe, in PEM: our authority, and those that
// the webhooks have and we have not seen there for longer than the grace. Without
// an authority of ours it is nobody.
func (b *bundle) whom(c *admissionregistrationv1.MutatingWebhookConfiguration, now time.Time) []byte {
	all := b.ca()
	if len(all) == 0 {
		return nil
	}
	b.look(c, all, now)
	for _, der := range slices.Sorted(maps.Keys(b.strangers)) {
		if now.Sub(b.strangers[der]) < b.grace {
			// A file of somebody's may end without a newline, and two words on one line are none.
			all = slices.Concat(bytes.TrimSpace(all), []byte("\n"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)}))
		}
	}
	return all
}

// news says whether the webhooks have a stranger that was not there before. It may
// be of what replicas share, read by another after us.
func (b *bundle) news(c *admissionregistrationv1.MutatingWebhookConfiguration) bool {
	ours := b.ca()
	if len(ours) == 0 {
		return false
	}
	for der := range strangers(c, ours) {
		if _, before := b.strangers[der]; !before {
			return true
		}
	}
	return false
}

// look writes down which strangers the webhooks have now. Where ours is missing,
// somebody who knows only the strangers is there: their time begins anew.
func (b *bundle) look(c *admissionregistrationv1.MutatingWebhookConfiguration, ours []byte, now time.Time) {
	overwritten := !believes(c, ours)
	seen := map[string]time.Time{}
	for der := range strangers(c, ours) {
		seen[der] = now
		if first, before := b.strangers[der]; before && !overwritten {
			seen[der] = first
		}
	}
	b.strangers = seen
}

// strangers are the certificates, by what they hold, that the webhooks have and
// that are not ours.
func strangers(c *admissionregistrationv1.MutatingWebhookConfiguration, ours []byte) map[string]bool {
	all := map[string]bool{}
	for _, w := range c.Webhooks {
		found, _ := certificates(string(w.ClientConfig.CABundle))
		maps.Copy(all, found)
	}
	known, _ := certificates(string(ours))
	maps.DeleteFunc(all, func(der string, _ bool) bool { return known[der] })
	return all
}

// forget leaves out who was taken out: one that is back is somebody who is there.
func (b *bundle) forget(now time.Time) {
	maps.DeleteFunc(b.strangers, func(_ string, first time.Time) bool { return now.Sub(first) >= b.grace })
}
