package wire

import (
	"slices"
	"strings"
)

// Covers are places of an image that a sandbox has something else at.
type Covers struct {
	// Files and Folders may hold credentials: nothing is there.
	Files   []string `json:"files,omitempty"`
	Folders []string `json:"folders,omitempty"`
	// Volumes are folders that the image declares as its own volumes, which a
	// runtime makes writable and puts on the node's disk: the sandbox's own disk is
	// there.
	Volumes []string `json:"volumes,omitempty"`
}

// Len is how many places they are.
func (c Covers) Len() int { return len(c.Files) + len(c.Folders) + len(c.Volumes) }

// Outermost are the places that can be mounted at together. Inside of a folder
// that nothing is in, no mount finds its place, and none is needed. A folder that
// has a volume inside is one itself, in which a runtime makes the place.
func (c Covers) Outermost() Covers {
	all := Covers{Volumes: slices.Clone(c.Volumes)}
	for _, folder := range outside(c.Folders, c.Folders) {
		if slices.ContainsFunc(c.Volumes, func(v string) bool { return v == folder || inside(v, folder) }) {
			all.Volumes = append(all.Volumes, folder)
		} else {
			all.Folders = append(all.Folders, folder)
		}
	}
	slices.Sort(all.Volumes)
	all.Volumes = slices.Compact(all.Volumes)
	all.Folders = outside(all.Folders, all.Volumes)
	all.Files = outside(c.Files, slices.Concat(all.Folders, all.Volumes))
	return all
}

// outside are those of some places that are inside of none of the folders.
func outside(places, folders []string) (left []string) {
	for _, p := range places {
		if !slices.ContainsFunc(folders, func(folder string) bool { return inside(p, folder) }) {
			left = append(left, p)
		}
	}
	return left
}

func inside(p, folder string) bool {
	return p != folder && strings.HasPrefix(p, strings.TrimSuffix(folder, "/")+"/")
}
