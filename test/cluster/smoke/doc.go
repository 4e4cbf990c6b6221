// Package smoke tests the test cluster itself: everything that the product
// promises on Kubernetes leans on these. Its tests have the build tag e2e.
package smoke
