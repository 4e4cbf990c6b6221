# Runs the long tests on the cluster that is up, part after part, and says of
# each how long it took and how it ended: sh test/e2e/parts.sh [PART]...
# All parts are run, also after one that failed. A test of test/e2e/runs that no
# part names is in "rest".
set -u

# One package after the other: the chart can be installed once, and while it is
# nobody but its pool makes sandboxes.
cases='^TestCases$'
hostile='^TestEscape$'
gvisor='^TestEscapeInGVisor$'
users='^TestEscapeInUserNamespaces$'
kills='^(TestP05KilledBeforeDestroy|TestP07Killed|TestHundredClaims|TestP09RestartUnderLoad)$'
named="$cases|$hostile|$gvisor|$users|$kills"

# The rows of the tools once more: both together could be over the bound.
inGVisor='^TestToolsInGVisor$'

arguments() {
	case $1 in
	driver) echo ./pool/kube/ ;;
	cases) echo "./test/e2e/runs/ -run $cases" ;;
	hostile) echo "./test/e2e/runs/ -run $hostile" ;;
	gvisor) echo "./test/e2e/runs/ -run $gvisor" ;;
	users) echo "./test/e2e/runs/ -run $users" ;;
	kills) echo "./test/e2e/runs/ -run $kills" ;;
	copies) echo ./test/e2e/copies/ ;;
	tools) echo "./test/e2e/tools/ -skip $inGVisor" ;;
	tools-gvisor) echo "./test/e2e/tools/ -run $inGVisor" ;;
	rest) echo "./test/e2e/runs/ -skip $named" ;;
	*)
		echo "there is no part \"$1\"; there are: $all" >&2
		return 2
		;;
	esac
}

all='driver cases hostile gvisor users kills copies tools tools-gvisor rest'
[ $# -gt 0 ] || set -- $all
for part; do arguments "$part" >/dev/null || exit 2; done

report= failed=0
for part; do
	began=$(date +%s)
	# shellcheck disable=SC2046 # words of our own
	if go test -tags e2e -count=1 -timeout 20m $(arguments "$part"); then end=ok; else end=FAILED failed=1; fi
	report="$report
$(printf '  %-12s %5ds  %s' "$part" $(($(date +%s) - began)) "$end")"
done
echo "parts:$report"
exit $failed
