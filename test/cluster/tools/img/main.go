// Command img makes images from layers and keeps them in a store, and serves a
// store as a registry.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	var err error
	switch os.Args[1] {
	case "build":
		err = runBuild(os.Args[2:])
	case "serve":
		err = runServe(os.Args[2:])
	default:
		usage()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "img:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: img build -store DIR < image.json\n       img serve -listen ADDRESS -store DIR -uploads DIR -images FILE -private NAME:PASSWORD")
	os.Exit(2)
}

func runBuild(args []string) error {
	flags := flag.NewFlagSet("build", flag.ExitOnError)
	store := flags.String("store", "", "folder that the image's parts are added to")
	_ = flags.Parse(args)
	digest, err := build(os.Stdin, *store)
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

func runServe(args []string) error {
	var s server
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:5000", "address to serve at")
	flags.StringVar(&s.store, "store", "", "folder with images that were built; only read")
	flags.StringVar(&s.uploads, "uploads", "", "folder for what is pushed")
	flags.StringVar(&s.images, "images", "", "JSON file: repository:tag to the digest in the store that it names")
	flags.StringVar(&s.private, "private", "", "NAME:PASSWORD that repositories below private/ ask for")
	_ = flags.Parse(args)
	return s.run()
}
