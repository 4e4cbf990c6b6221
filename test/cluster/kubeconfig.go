package cluster

import (
	"encoding/json"
	"fmt"
)

type object map[string]any

// kubeconfig is one client of one cluster. JSON is YAML as well.
func kubeconfig(server string, ca []byte, p pair) ([]byte, error) {
	raw, err := json.MarshalIndent(object{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []object{{"name": "bed", "cluster": object{
			"server": server, "certificate-authority-data": ca,
		}}},
		"users": []object{{"name": "bed", "user": object{
			"client-certificate-data": p.cert, "client-key-data": p.key,
		}}},
		"contexts":        []object{{"name": "bed", "context": object{"cluster": "bed", "user": "bed"}}},
		"current-context": "bed",
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("cannot write a kubeconfig: %w", err)
	}
	return raw, nil
}
