package server

import (
	"math"
	"regexp"
	"slices"
	"strings"
)

// secretShapes is what keys, tokens and addresses with a password look like:
// env.py of the hook has the same, and testdata/values.json beside it says what
// both must make of values.
var secretShapes = regexp.MustCompile(`-----BEGIN|(?:^|[^\w-])eyJ[\w-]+\.[\w-]+\.|://[^/\s:@]*:[^/\s@]+@` +
	`|^(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abps]|hf|AKIA|ASIA|AIza|ya29)[-_.]?[A-Za-z0-9_-]{10,}` +
	`|(?:^|[^A-Za-z0-9])(?:sk-|[spr]k_|gh[oprsu]_|github_pat_|gl[a-z]{2,4}-|xox[a-z]-|xapp-|hf_|npm_|pypi-|AIza|ya29\.|SG\.|shp[a-z]{2}_` +
	`|whsec_|lin_api_|nvapi-|gsk_|r8_|tvly-|pcsk_|pplx-|xai-|hv[sbr]\.|glsa_|dckr_pat_|dop_v1_|ATATT|sntry[su]_|AGE-SECRET-KEY-1)` +
	`[A-Za-z0-9_./+=-]{10,}` +
	`|(?:^|[^A-Za-z0-9])(?:A[GIKNRS][A-Z]A[A-Z0-9]{12,}|dapi[0-9a-f]{32})` +
	`|(?i:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key)\s*[=:]\s*[^\s;,&]{4,}` +
	`|(?i:bearer|basic)\s+[A-Za-z0-9+/=._-]{16,}`)

var (
	betweenWords = regexp.MustCompile(`[^A-Za-z0-9_+/.~-]+`)
	longHex      = regexp.MustCompile(`^[0-9a-fA-F]{32,}$`)
	digitsOnly   = regexp.MustCompile(`^[0-9]+$`)
	lettersOnly  = regexp.MustCompile(`^[A-Za-z]+$`)
)

// pathNames are variables whose values are paths: folders may be named by hashes.
var pathNames = []string{
	"PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
}

// secretLike says whether a variable's value is not to cross, however harmless
// its name is.
func secretLike(name, value string) bool {
	if secretShapes.MatchString(value) {
		return true
	}
	return !slices.Contains(pathNames, name) && slices.ContainsFunc(wordsOf(value), random)
}

// wordsOf are the words of a value. A path has one for each folder, and so has a
// URL.
func wordsOf(value string) (words []string) {
	for _, word := range betweenWords.Split(value, -1) {
		if strings.Contains(word, "/") && (strings.ContainsAny(word[:1], "/.~") || strings.Contains(value, "//")) {
			words = append(words, strings.Split(word, "/")...)
		} else {
			words = append(words, word)
		}
	}
	return words
}

// random says whether nobody would write a word by hand: it is long, and of many
// letters and digits.
func random(word string) bool {
	if longHex.MatchString(word) && !digitsOnly.MatchString(word) {
		return true
	}
	has := func(from, to rune) bool {
		return strings.ContainsFunc(word, func(c rune) bool { return from <= c && c <= to })
	}
	if len(word) >= 16 && has('A', 'Z') && has('a', 'z') && has('0', '9') {
		return entropy(word) > 3.5
	}
	return len(word) >= 24 && !strings.Contains(word, "/") && entropy(word) > 4.0 && !lettersOnly.MatchString(word)
}

// entropy is how many bits a character of the word tells.
func entropy(word string) (bits float64) {
	var counts [256]int
	for i := range len(word) {
		counts[word[i]]++
	}
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(word))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
