// Package hidden has the names of what may hold a credential: the one list of what
// copies of a program do not see, on one machine and in pods.
package hidden

import (
	"path"
	"slices"
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

// Future are names of files that are hidden though nothing may have them
// yet, at the top of each folder of the program and beside whatever is hidden:
// programs make them while copies of them are warm.
var Future = []string{
	".env", ".env.local", ".env.production", ".env.development", ".envrc", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".dockerconfigjson",
	".aws", ".ssh", ".git", ".streamlit", ".credentials", ".token",
	"credentials", "credentials.json", "client_secret.json", "service_account.json", "service-account.json", "auth.json",
	"token.txt", "token.json", "tokens.json", "secrets", "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", "secrets.env",
	"id_rsa", "id_ed25519", "key.pem", "server.key", "kubeconfig", "pip.conf",
}

// File says whether a file of that name, or what a link of that name leads to, is
// hidden: dot files, and names that mean credentials, in capitals too.
func File(name string) bool { return strings.HasPrefix(name, ".") || Credentials(name) }

// Credentials says whether a file's name means that it holds credentials.
func Credentials(name string) bool {
	name = strings.ToLower(name)
	if path.Ext(name) == ".py" {
		return false
	}
	return slices.ContainsFunc(credentialNames, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// Folder says whether a folder of that name is hidden: dot folders, and those that
// no import needs and that are large or hold keys.
func Folder(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains(folders, strings.ToLower(name))
}

var folders = []string{"node_modules", "secrets", "credentials", "keyrings"}

// Places are names of folders, in lower case, that programs keep their keys and
// tokens in.
var Places = []string{
	".ssh", ".gnupg", ".pki", ".password-store", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".oci", ".terraform.d",
	".vault", ".mozilla", ".thunderbird", "secrets", "credentials", "keyrings",
}

// Place says whether a path is one of those folders, or inside.
func Place(p string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(p), "/"), func(part string) bool { return slices.Contains(Places, part) })
}
