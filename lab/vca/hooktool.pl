#!/usr/bin/perl
# Client of all hook tools; installed under each tool's name.
#
# A charm calls tools often, and the start of the interpreter is most of the time of a call. Perl
# without modules starts in a quarter of the time of Python. Every Debian and Ubuntu has it
# (perl-base is essential). `toolserver.py` describes the messages.

use strict;

my ($AF_UNIX, $SOCK_STREAM, $NEED_STDIN) = (1, 1, 255);

sub refuse { put(\*STDERR, "ERROR @_\n"); exit 1 }

sub put {
    my ($to, $data) = @_;
    while (length $data) {
        my $sent = syswrite $to, $data or die "$!\n";
        substr $data, 0, $sent, "";
    }
}

sub get {
    my ($from, $count) = @_;
    my $data = "";
    while (length $data < $count) {
        my $got = sysread $from, $data, $count - length $data, length $data;
        die "$!\n" unless defined $got;
        die "the unit agent closed the connection\n" unless $got;
    }
    return $data;
}

# Send one request; return code, standard output and standard error.
sub call {
    my ($path, $flag, $fields, $stdin) = @_;
    socket my $agent, $AF_UNIX, $SOCK_STREAM, 0 or die "$!\n";
    connect $agent, pack "S a*", $AF_UNIX, $path or die "$!\n";
    put($agent, pack("C N N", $flag, length $fields, length $stdin) . $fields . $stdin);
    my ($code, $out, $err) = unpack "C N N", get($agent, 9);
    return $code, get($agent, $out), get($agent, $err);
}

my $address = $ENV{JUJU_AGENT_SOCKET_ADDRESS};
refuse("JUJU_AGENT_SOCKET_ADDRESS not set") unless length $address;
my ($tool) = $0 =~ m{([^/]*)\z};
my ($folder, $name) = $address =~ m{(.*)/(.*)}s;
my $fields = join "\0", readlink("/proc/self/cwd"), $tool, @ARGV;

my ($code, $out, $err) = eval {
    # The path of a socket may have 107 bytes at most.
    chdir $folder or die "$!\n";
    my @answer = call($name, 0, $fields, "");
    @answer = call($name, 1, $fields, do { local $/; <STDIN> // "" }) if $answer[0] == $NEED_STDIN;
    @answer;
} or do { chomp $@; refuse("the unit agent does not answer: $@") };
put(\*STDOUT, $out);
put(\*STDERR, $err);
exit $code;
