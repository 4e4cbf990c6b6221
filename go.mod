module github.com/code-sandbox/code-sandbox

go 1.26.8
