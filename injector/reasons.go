package injector

// Reason says in a word why a pod was not injected. Log, Event and metric all
// use these words, and no others.
type Reason string

// The reasons.
const (
	OptedOut        Reason = "opted_out"
	AlreadyInjected Reason = "already_injected"
	SystemNamespace Reason = "system_namespace"
	OwnNamespace    Reason = "own_namespace"
	NotEnrolled     Reason = "not_enrolled"
	IsSandbox       Reason = "sandbox"
	MirrorPod       Reason = "mirror_pod"
	Windows         Reason = "windows"
	HostNetwork     Reason = "host_network"
	PortTaken       Reason = "port_taken"
	NameTaken       Reason = "name_taken"
	BadAnnotation   Reason = "bad_annotation"
	// ForeignSidecar is a pod that says it was injected, and is not as we make it.
	ForeignSidecar Reason = "foreign_sidecar"
	// Missed is said by the audit: the pod should have been injected. It was
	// there before its namespace was enrolled, or the injector was not asked.
	Missed Reason = "missed"
	// Outdated is said by the audit: the pod was injected by another version, or
	// under a policy or settings that have changed since.
	Outdated Reason = "outdated"
)

// kind says what a reason means for the one who made the pod.
type kind int

const (
	expected   kind = iota // nothing to tell
	chosen                 // somebody wanted it so
	impossible             // the pod cannot have a sidecar as it is
	mistaken               // the pod asks for what does not exist: refused
)

var kinds = map[Reason]kind{
	AlreadyInjected: expected, SystemNamespace: expected, OwnNamespace: expected, NotEnrolled: expected, IsSandbox: expected,
	MirrorPod: expected, OptedOut: chosen, Outdated: chosen,
	Windows: impossible, HostNetwork: impossible, PortTaken: impossible, NameTaken: impossible, Missed: impossible,
	BadAnnotation: mistaken, ForeignSidecar: mistaken,
}

// Reasons lists every Reason.
var Reasons = []Reason{
	OptedOut, AlreadyInjected, SystemNamespace, OwnNamespace, NotEnrolled, IsSandbox, MirrorPod, Windows, HostNetwork, PortTaken,
	NameTaken, BadAnnotation, ForeignSidecar, Missed, Outdated,
}

// audited are the reasons that only the audit says.
func (r Reason) audited() bool { return r == Missed || r == Outdated }
