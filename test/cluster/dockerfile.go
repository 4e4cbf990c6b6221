package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// stage is one FROM of a Dockerfile and what follows it.
type stage struct {
	name, base string
	lines      []instruction
}

type instruction struct{ word, rest string }

// parseDockerfile reads the part of the language that ours is written in.
func parseDockerfile(text string) ([]stage, error) {
	var stages []stage
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "FROM" {
			fields := strings.Fields(rest)
			if len(fields) != 3 || fields[1] != "AS" {
				return nil, fmt.Errorf("cannot read the Dockerfile: a stage without a name: %q", line)
			}
			stages = append(stages, stage{base: fields[0], name: fields[2]})
			continue
		}
		if len(stages) == 0 {
			return nil, fmt.Errorf("cannot read the Dockerfile: %q is before the first stage", line)
		}
		last := &stages[len(stages)-1]
		last.lines = append(last.lines, instruction{word, rest})
	}
	return stages, nil
}

// get returns what follows the word, of the last line that begins with it.
func (s stage) get(word string) string {
	for _, line := range slices.Backward(s.lines) {
		if line.word == word {
			return line.rest
		}
	}
	return ""
}

func (s stage) has(word, text string) bool {
	return slices.ContainsFunc(s.lines, func(l instruction) bool { return l.word == word && strings.Contains(l.rest, text) })
}

// settingsDiffer compares how containers start.
func settingsDiffer(s stage, im image) []string {
	var found []string
	differ := func(what, is, should string) {
		if is != should {
			found = append(found, fmt.Sprintf("%s: %s is %q in the Dockerfile, %q in the cluster", s.name, what, is, should))
		}
	}
	list := func(of []string) string {
		if len(of) == 0 {
			return ""
		}
		raw, err := json.Marshal(of)
		if err != nil {
			panic("BUG: strings that cannot be written: " + err.Error())
		}
		return string(raw)
	}
	differ("USER", s.get("USER"), im.user)
	differ("WORKDIR", s.get("WORKDIR"), im.workdir)
	differ("ENTRYPOINT", s.get("ENTRYPOINT"), list(im.entrypoint))
	differ("CMD", s.get("CMD"), list(im.cmd))
	differ("ENV", s.get("ENV"), path)
	return found
}

// contentDiffers compares what the images are made of.
func contentDiffers(stages map[string]stage, product, python image) []string {
	var found []string
	must := func(stage, word, text string) {
		if !stages[stage].has(word, text) {
			found = append(found, fmt.Sprintf("%s: no %s has %q", stage, word, text))
		}
	}
	var names []string
	for _, main := range productMains {
		names = append(names, filepath.Base(main))
	}
	must("build", "RUN", "for main in "+strings.Join(names, " ")+";")
	must("build", "RUN", "CGO_ENABLED=0 go build "+quoted(mainFlags)+" -o /out/$main ./cmd/$main")
	must(product.name, "COPY", "--from=build /out/ /usr/local/bin/")
	if base := stages[product.name].base; base != "scratch" {
		found = append(found, product.name+": its base is "+base)
	}
	must("wheels", "COPY", "test/cluster/images/"+python.layers[1].wheels+" ")
	must("wheels", "RUN", "install -q "+strings.Join(pipFlags, " ")+" --target /out -r /"+python.layers[1].wheels)
	must(python.name, "COPY", "--from=wheels /out/ /usr/local/lib/python3.11/dist-packages/")
	must(python.name, "RUN", "--no-install-recommends "+strings.Join(python.layers[0].debian, " ")+" ")
	return found
}

// quoted writes arguments for a shell, those with spaces in quotes.
func quoted(args []string) string {
	var words []string
	for _, a := range args {
		if strings.Contains(a, " ") {
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// CheckDockerfile tells where the Dockerfile that users build images with
// makes others than the cluster has: in its instructions, and in the names of
// the files and packages that the cluster's images hold.
func (b *Bed) CheckDockerfile(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(b.source, "Dockerfile"))
	if err != nil {
		return fmt.Errorf("cannot read the Dockerfile: %w", err)
	}
	parsed, err := parseDockerfile(string(text))
	if err != nil {
		return err
	}
	stages := map[string]stage{}
	for _, s := range parsed {
		stages[s.name] = s
	}
	bin, err := b.Build(ctx)
	if err != nil {
		return err
	}
	if _, err := b.Images(ctx, bin); err != nil {
		return err
	}
	mains := existing(b.source, productMains)
	product, python := findImage(mains, "code-sandbox"), findImage(mains, "python")
	found := slices.Concat(settingsDiffer(stages[product.name], product), settingsDiffer(stages[python.name], python),
		contentDiffers(stages, product, python))
	held, err := b.heldDiffers(ctx, bin, product, python)
	if err != nil {
		return err
	}
	if found = append(found, held...); len(found) > 0 {
		return errors.New("the Dockerfile and the cluster's images differ:\n" + strings.Join(found, "\n"))
	}
	b.log.Info("the Dockerfile and the cluster's images agree")
	return nil
}

func findImage(mains []string, name string) image {
	list := imageList(mains)
	return list[slices.IndexFunc(list, func(im image) bool { return im.name == name })]
}
