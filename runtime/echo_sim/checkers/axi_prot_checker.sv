// Checks the attributes of bursts on m_axi. A burst of the host has the address and AxPROT that it had on s_axi, and the
// host's bursts keep their order. A burst of the device has the value that AXI_PROT held when the device chose the
// address. All are normal, non-cacheable, bufferable, not locked and without priority. Passive.
module axi_prot_checker #(
    parameter string Channel = "AW"
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        host_taken_i,  // an address of the host
    input logic [48:0] host_i,        // ID, address, length, size and kind of burst
    input logic [ 2:0] host_prot_i,
    input logic [ 2:0] own_prot_i,    // the register
    input logic        valid_i,       // on m_axi
    input logic        ready_i,
    input logic [ 3:0] client_i,      // 0 is the host
    input logic [48:0] address_i,
    input logic [ 2:0] prot_i,
    input logic        lock_i,
    input logic [ 3:0] cache_i,
    input logic [ 3:0] qos_i
);
  localparam logic [3:0] NormalBufferable = 4'b0011;  // of AxCACHE, without the memory types that allocate

  typedef struct packed {
    logic [48:0] address;
    logic [2:0]  prot;
  } asked_t;

  asked_t asked[$];  // by the host, in order; a burst that the window refuses stays until a later one is seen
  logic waiting_q;
  logic [2:0] own_prot_q;

  always @(posedge clk_i) begin
    own_prot_q <= own_prot_i;
    waiting_q  <= rst_ni && valid_i && !ready_i;
    if (!rst_ni) begin
      asked.delete();
    end else begin
      if (valid_i && !waiting_q) begin
        Attributes : assert (!lock_i && cache_i == NormalBufferable && qos_i == '0)
        else $error("%m: AxLOCK, AxCACHE and AxQOS on %s are not those of normal bufferable memory", Channel);
      end
      if (valid_i && !waiting_q && client_i == 4'd0) begin
        automatic bit found = 1'b0;
        automatic asked_t oldest = '0;
        while (!found && asked.size() != 0) begin
          oldest = asked.pop_front();
          found  = oldest.address == address_i;
        end
        HostAddressUnchanged : assert (found)
        else $error("%m: the host has not asked for this address on %s", Channel);
        HostProtUnchanged : assert (oldest.prot == prot_i)
        else $error("%m: the host's AxPROT has changed on %s", Channel);
      end
      if (valid_i && !waiting_q && client_i != 4'd0) begin
        OwnProt : assert (prot_i == own_prot_q)
        else $error("%m: AxPROT is not what the register says on %s", Channel);
      end
      if (host_taken_i) asked.push_back({host_i, host_prot_i});
    end
  end
endmodule
