package local

import (
	"path"
	"strings"
)

// credentialNames are names of files that hold credentials, in lower case, as
// path.Match has them. They are hidden from copies wherever they stand in the
// folders of the program; so is everything whose name begins with a dot.
// Sources are not: a key written into the program is part of the program.
var credentialNames = []string{
	// Keys and certificates with keys.
	"*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.ppk", "*.gpg", "*.asc",
	"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
	// Clouds and services.
	"credentials", "credentials.*", "*_credentials.json", "*-credentials.json", "client_secret*.json",
	"service_account*.json", "service-account*.json", "serviceaccount*.json", "gha-creds-*.json",
	"kubeconfig*", "*.kubeconfig", "*.tfvars", "*.tfstate*", "*.ovpn",
	// Tokens, secrets and password stores.
	"secret", "secrets", "secret.*", "secrets.*", "token", "token.txt", "token.json", "token_*.json", "token-*.json", "tokens.json", "token*.txt", "*_token.*", "auth.json", "*secret*.ini", "*secret*.y*ml", "*credential*.ini", "*credential*.y*ml", "*.token", "passwords.*",
	"*.keyring", "keyring*.cfg", "*_pass.cfg", "*.kdbx", "htpasswd*", "*.env", "env.local", "pip.conf", "npmrc",
}

// holdsCredentials says whether a file of that name is hidden.
func holdsCredentials(name string) bool {
	name = strings.ToLower(name)
	if path.Ext(name) == ".py" {
		return false
	}
	for _, pattern := range credentialNames {
		if ok, _ := path.Match(pattern, name); ok { // the patterns are constants, and good
			return true
		}
	}
	return false
}

// hiddenFolders are folders of a program that no import needs and that are
// large or hold keys.
var hiddenFolders = map[string]bool{"node_modules": true, "secrets": true, "credentials": true, "keyrings": true}
